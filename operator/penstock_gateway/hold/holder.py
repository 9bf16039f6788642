"""`Holder`: holds requests that found no pod until Envoy has one in force, and says which pools have such requests."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from secrets import token_hex
from typing import Final

from penstock_api.hold import StartPart
from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.errors import EnvoyUnavailable
from penstock_gateway.hold.queue import HeldQueue, HeldRequest, Refusal
from penstock_gateway.hold.starts import ORDER, StartTimes
from penstock_gateway.snapshot import Route

log = logging.getLogger(__name__)

RELEASE_SECONDS: Final = 0.05
"""Time between two releases while requests are held and pods are in force."""
OPENING_STEP_SECONDS: Final = 0.01
"""The same of a pool that just got its first pod, whose first steps are small."""
UNCOUNTED_SECONDS: Final = 0.03
"""Time after its release in which Envoy may not count a request: its retry backs off for up to 25 ms."""
EXPIRY_SECONDS: Final = 0.5
"""Time between two checks of the ages of held requests."""
ANSWER_SECONDS: Final = 600.0
"""Time after the release for which a first answer is waited for."""
ACKNOWLEDGED: Final = ORDER.index(StartPart.ENDPOINT) + 1
"""Parts of a start that are over once Envoy has a pod in force."""


@dataclass(slots=True)
class _Pool:
    """The queue of a pool, and the ends of its requests' waits: None is the release."""

    queue: HeldQueue
    waits: dict[int, asyncio.Future[Refusal | None]] = field(default_factory=dict)
    uncounted: tuple[tuple[float, int], ...] = ()
    """Times and numbers of the releases that Envoy may not count yet."""
    hold_endpoints: int = 1
    """Endpoints that are no pods: the hold listener, and none once the pool is not held any longer."""


@dataclass(slots=True)
class Holder:
    """Holds the requests of all pools; `now` is Unix seconds of a clock that never steps."""

    admin: EnvoyAdmin
    pods_in_force: Callable[[str], int]
    """Pods of a pool that Envoy acknowledged."""
    progress: Callable[[str], int]
    """Parts of a pool's start that are over already when the first request comes."""
    now: Callable[[], float]
    clock: Callable[[], float]
    """The clock of Envoy's marks, in Unix seconds: the machine's, which may be set."""
    refused: dict[tuple[str, Refusal], int] = field(default_factory=dict)
    """Refusals by pool and reason, 0 included: Prometheus sees no increase in the first value of a series."""
    released: dict[str, int] = field(default_factory=dict)
    """Releases by pool, 0 included."""
    starts: StartTimes = field(default_factory=StartTimes)
    _pools: dict[str, _Pool] = field(default_factory=dict)
    _numbers: Iterable[int] = field(default_factory=count)
    _run: str = field(default_factory=lambda: token_hex(4))
    _demands: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _demanded: asyncio.Condition = field(default_factory=asyncio.Condition)
    _timers: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """What waits for the first answer after a release, by pool."""

    @property
    def version(self) -> str:
        """Return a name of the present demand: another one when the first request of a pool is held, and in each process."""
        return f"{self._run}-{self._demands}"

    def held(self) -> Mapping[str, Mapping[str, float]]:
        """Return the number of each pool's held requests and the longest time that one is held, for pools that have any."""
        now = self.now()
        return {
            name: {"requests": len(pool.queue.requests), "seconds": round(now - since, 3)}
            for name, pool in self._pools.items()
            if (since := pool.queue.since) is not None
        }

    def queue(self, pool: str) -> HeldQueue | None:
        """Return the queue of a pool; None if its requests are not held."""
        return self._pools[pool].queue if pool in self._pools else None

    def time_of(self, mark: float | None) -> float:
        """Return the time of a mark that Envoy made; now without one, or for one in the future."""
        return self.now() - (0.0 if mark is None else max(self.clock() - mark, 0.0))

    def update(self, routes: Mapping[str, Route], deleted: Set[str] = frozenset()) -> None:
        """Follow the pools that are held; one that is not any longer keeps its limits until no request is held.

        Requests of pools that were `deleted` are refused once they cannot come back.
        """
        limits = {name: route.hold for name, route in routes.items() if route.hold is not None}
        for name, limit in limits.items():
            self._pools.setdefault(name, _Pool(HeldQueue(limit))).queue.limits = limit
            self._pools[name].hold_endpoints = 1
            self._pools[name].queue.gone_at = None
            self.released.setdefault(name, 0)
            for reason in Refusal:
                self.refused.setdefault((name, reason), 0)
        for name in [name for name in self._pools if name not in limits]:
            self._pools[name].hold_endpoints = 0
            queue = self._pools[name].queue
            if name in deleted and queue.gone_at is None:
                queue.gone_at = self.now()
            if not self._pools[name].waits:
                del self._pools[name]
        self.starts.keep(routes.keys())
        self._changed.set()

    def wake(self) -> None:
        """Check at once which pods are in force."""
        self._changed.set()

    async def hold(self, name: str, arrival: HeldRequest) -> Refusal | None:
        """Hold a request of a pool; return None at its release. A client that leaves cancels this."""
        pool = self._pools[name]
        first = not pool.queue.requests
        if not pool.queue.add(arrival):
            return self._counted(name, Refusal.FULL)
        pool.waits[arrival.number] = asyncio.get_running_loop().create_future()
        try:
            if first:
                if not self.pods_in_force(name):
                    if (timer := self._timers.pop(name, None)) is not None:
                        timer.cancel()  # of a former start
                    self.starts.begin(name, arrival.entered, self.now())
                    self.starts.reach(name, self.progress(name), self.now())
                await self._announce()
            return self._counted(name, await pool.waits[arrival.number])
        finally:
            pool.queue.remove(arrival.number)
            del pool.waits[arrival.number]

    def next_number(self) -> int:
        """Return the number of the next request."""
        return next(iter(self._numbers))

    async def demanded(self, known: str, seconds: float) -> None:
        """Wait until the demand has another version than `known`, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._demanded:
                await self._demanded.wait_for(lambda: self.version != known)

    async def run(self) -> None:
        """Release and refuse until cancelled."""
        while True:
            await self._pause()
            for name, pool in list(self._pools.items()):
                await self._advance(name, pool)

    async def _pause(self) -> None:
        waiting = [pool.queue for pool in self._pools.values() if pool.waits]
        served = [queue for queue in waiting if queue.pods]
        if served:
            opens = any(queue.opens(self.now()) for queue in served)
            await asyncio.sleep(OPENING_STEP_SECONDS if opens else RELEASE_SECONDS)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(EXPIRY_SECONDS if waiting else None):
                await self._changed.wait()
        self._changed.clear()

    async def _announce(self) -> None:
        self._changed.set()
        self._demands += 1
        async with self._demanded:
            self._demanded.notify_all()

    def _counted(self, name: str, reason: Refusal | None) -> Refusal | None:
        if reason is None:
            self.released[name] += 1
        else:
            self.refused[name, reason] += 1
        return reason

    async def _advance(self, name: str, pool: _Pool) -> None:
        queue = pool.queue
        queue.set_pods(self.pods_in_force(name), self.now())
        for request, reason in queue.expired(self.now()):
            self._end(pool, request, reason)
        if not queue.pods:
            return
        self.starts.reach(name, ACKNOWLEDGED, self.now())
        if queue.requests:
            await self._release(name, pool)
        elif name not in self._timers:
            self.starts.drop(name)

    async def _release(self, name: str, pool: _Pool) -> None:
        """Release what the pods have room for; nothing while all are ejected, since a release would only lead back here."""
        queue = pool.queue
        try:
            load = await self.admin.cluster_load(name)
        except EnvoyUnavailable as error:
            log.warning("releasing held requests of %s without Envoy's count: %s", name, error)
            load = None
        if load is not None and load.healthy <= pool.hold_endpoints:
            return
        at_pods = 0 if load is None else max(load.requests - len(queue.requests), 0)
        self._release_within(pool, at_pods, self.now())
        start = self.starts.under_way.get(name)
        if load is not None and start is not None and name not in self._timers:
            timer = self._time_first_byte(name, start, load.answered)
            self._timers[name] = asyncio.create_task(timer, name=f"first byte of {name}")

    def _release_within(self, pool: _Pool, at_pods: int, now: float) -> None:
        """Release what fits next to the requests that Envoy counts, and those that it does not count yet."""
        queue = pool.queue
        recent = tuple(each for each in pool.uncounted if now - each[0] < UNCOUNTED_SECONDS)
        at_pods += sum(number for _, number in recent)
        full = at_pods >= queue.limits.per_pod * queue.pods
        released = [] if recent and full else queue.releasable(at_pods, now)
        pool.uncounted = (*recent, (now, len(released))) if released else recent
        for request in released:
            self._end(pool, request, None)

    async def _time_first_byte(self, name: str, start: list[float], answered: int) -> None:
        """End the start when Envoy counts a further successful answer, within 10 ms or a tenth of the time since the release."""
        released = self.now()
        try:
            while self.starts.under_way.get(name) is start:
                waited = self.now() - released
                if waited > ANSWER_SECONDS:
                    self.starts.drop(name)
                await asyncio.sleep(max(waited / 10, 0.01))
                with suppress(EnvoyUnavailable):
                    if (await self.admin.cluster_load(name)).answered > answered:
                        self.starts.reach(name, len(ORDER), self.now())
        finally:
            if self._timers.get(name) is asyncio.current_task():
                del self._timers[name]

    def _end(self, pool: _Pool, request: HeldRequest, reason: Refusal | None) -> None:
        pool.queue.remove(request.number)
        wait = pool.waits.get(request.number)
        if wait is not None and not wait.done():
            wait.set_result(reason)
