"""What happens to gateways and pods at random times while clients send."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Final

from tests.bench.losses.world import Front, Gateway, World
from tests.support.gateway.stack import kill

MAX_PODS: Final = 6
MAX_GENERATING: Final = 3
STALL_SECONDS: Final = (0.2, 3.0)


async def scale_up(world: World) -> None:
    """One pod or two more."""
    await world.scale(min(world.replicas + world.random.randint(1, 2), MAX_PODS))


async def scale_down(world: World) -> None:
    """One pod or two less, at least one stays."""
    await world.scale(max(world.replicas - world.random.randint(1, 2), 1))


async def roll_pods(world: World) -> None:
    """As many new pods as there are, then the old ones go."""
    replicas = world.replicas
    await world.scale(2 * replicas)
    await world.scale(replicas)


async def kill_pod(world: World) -> None:
    """SIGKILL of a pod."""
    await world.kill_pod()


async def evict_pod(world: World) -> None:
    """An eviction of a pod, which a new one replaces."""
    await world.evict_pod()


async def to_zero_and_back(world: World) -> None:
    """No pod for a while: the gateways hold what comes."""
    replicas = world.replicas
    await world.scale(0)
    await asyncio.sleep(world.random.uniform(0, 1))
    await world.scale(max(replicas, 1))


async def kill_controller(world: World) -> None:
    """SIGKILL of a gateway's controller, which starts again."""
    async with _own_gateway(world) as gateway:
        await kill(gateway.stack.controller)
        await asyncio.sleep(world.random.uniform(0, 1))
        await gateway.stack.start_controller()
        await gateway.stack.until_ready()


async def kill_envoy(world: World) -> None:
    """SIGKILL of an Envoy, which the kubelet starts again; clients send again what it had."""
    async with _own_gateway(world) as gateway:
        world.down.add(gateway.stack.host)
        await kill(gateway.stack.envoy)
        await asyncio.sleep(world.random.uniform(0, 1))
        await gateway.stack.start_envoy()
        await gateway.stack.until_ready()
        world.down.discard(gateway.stack.host)


async def roll_gateway(world: World) -> None:
    """A new pod of the gateway, then an old one goes."""
    async with _own_gateway(world) as gateway:
        world.gateways.append(await world.new_gateway())
        await world.retire(gateway)


async def stall_endpoints(world: World) -> None:
    """A controller that hangs: Envoy gets no new endpoints."""
    async with _own_gateway(world) as gateway:
        controller = gateway.stack.controller
        assert controller is not None
        controller.send_signal(signal.SIGSTOP)
        await asyncio.sleep(world.random.uniform(*STALL_SECONDS))
        controller.send_signal(signal.SIGCONT)


async def lose_api_server(world: World) -> None:
    """The API server goes away, and has forgotten old versions when it returns."""
    async with world.objects.away:
        await world.api.stop()
        await asyncio.sleep(world.random.uniform(*STALL_SECONDS))
        await world.api.start()
        if world.random.random() < 0.5:
            await world.api.expire()


async def scale_generating_pods(world: World) -> None:
    """Another number of pods that generate."""
    pool = world.generating
    assert pool is not None
    async with pool.change:
        await pool.scale(
            world.random.choice([n for n in range(1, MAX_GENERATING + 1) if n != len(pool.pods)])
        )


async def roll_generating_pods(world: World) -> None:
    """As many new pods that generate as there are, then the old ones go."""
    pool = world.generating
    assert pool is not None
    async with pool.change:
        old = list(pool.pods)
        await pool.scale(2 * len(old))
        for name in old:
            await pool.delete_pod(name)


async def evict_generating_pod(world: World) -> None:
    """An eviction of a pod of at least two, as a disruption budget lets it; a new one replaces it."""
    pool = world.generating
    assert pool is not None
    async with pool.change:
        replicas = max(len(pool.pods), 2)
        await pool.scale(replicas)
        await pool.delete_pod(world.random.choice(sorted(pool.pods)))
        await pool.scale(replicas)


Kinds = Mapping[Callable[[World], Awaitable[None]], int]
OF_PODS: Final[Kinds] = {scale_up: 15, scale_down: 15, roll_pods: 5, kill_pod: 20, evict_pod: 5}
KINDS: Final[Mapping[Front, Kinds]] = {
    Front.SERVICE: OF_PODS,
    Front.HAPROXY: OF_PODS,
    Front.VLLM_ROUTER: OF_PODS,
    Front.GATEWAY: {
        **OF_PODS,
        to_zero_and_back: 3,
        kill_controller: 8,
        kill_envoy: 4,
        roll_gateway: 4,
        stall_endpoints: 16,
        lose_api_server: 5,
    },
}
"""Each with its weight."""
OF_GENERATING_PODS: Final[Kinds] = {
    scale_generating_pods: 4,
    roll_generating_pods: 2,
    evict_generating_pod: 2,
}
"""Planned ends of pods, whose streams are handed over."""
AT_A_TIME: Final = 3


def name_of(kind: Callable[[World], Awaitable[None]]) -> str:
    """Return what an event is called: `kill pod`."""
    return getattr(kind, "__name__", "").replace("_", " ")


def kinds_of(world: World, only: Collection[str] = ()) -> Kinds:
    """Return the kinds of events of `world`, with their weights; `only` those of these names, if there are any."""
    kinds = {**KINDS[world.front], **({} if world.generating is None else OF_GENERATING_PODS)}
    return {kind: weight for kind, weight in kinds.items() if not only or name_of(kind) in only}


@dataclass(slots=True)
class Events:
    """Events at random shares of the requests; `progress` is the number of answers."""

    world: World
    progress: Callable[[], int]
    only: Collection[str] = ()
    """Names of the kinds; empty: all."""
    happened: Counter[str] = field(default_factory=Counter)
    timeline: list[tuple[float, float, str]] = field(default_factory=list)
    """(begin, end, kind) of each event, in seconds from the first call of `run`, by their ends."""
    done: bool = False
    _begin: float = 0.0
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_A_TIME))

    async def run(self, count: int, requests: int, *, each: bool) -> None:
        """Start each event when its time has come, and wait for all of them."""
        self._begin = time.monotonic()
        random = self.world.random
        moments = sorted(random.uniform(0, requests) for _ in range(count))
        known = kinds_of(self.world, self.only)
        kinds = random.choices(list(known), list(known.values()), k=count)
        if each:
            kinds = list(islice(cycle(random.sample(list(known), len(known))), count))
        try:
            async with asyncio.TaskGroup() as tasks:
                for moment, kind in zip(moments, kinds, strict=True):
                    while self.progress() < moment:  # noqa: ASYNC110  other coroutines count
                        await asyncio.sleep(0.02)
                    await self._slots.acquire()
                    tasks.create_task(self._one(kind))
        finally:
            self.done = True

    async def _one(self, kind: Callable[[World], Awaitable[None]]) -> None:
        name, begin = name_of(kind), time.monotonic()
        try:
            await kind(self.world)
            self.happened[name] += 1
        finally:
            self.timeline.append((begin - self._begin, time.monotonic() - self._begin, name))
            self._slots.release()


@asynccontextmanager
async def _own_gateway(world: World) -> AsyncIterator[Gateway]:
    """Choose a gateway, and keep other events from its processes meanwhile."""
    while True:
        free = [gateway for gateway in world.gateways if not gateway.lock.locked()]
        gateway = world.random.choice(free or world.gateways)
        async with gateway.lock:
            if gateway in world.gateways:  # it was not rolled while this event waited
                yield gateway
                return
