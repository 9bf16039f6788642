"""The pass: for the pools that are due, observe, decide, act. Level-based, and the only path that writes.

Pools that come due together are observed and decided together; each is acted on by itself, so that a slow
pod or a refused write of one pool delays no other. A failure is its pool's own: it is logged, shown, and
the pool is put off; the pass never ends for it.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from penstock_operator import metrics, telling
from penstock_operator.act.limits import PodControl
from penstock_operator.act.pools import Acted, PoolActs
from penstock_operator.act.signing_key import KeyRing
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.effective import prometheus_url
from penstock_operator.decide.plan import Plan, PoolPlan
from penstock_operator.decide.planner import make_plan
from penstock_operator.due import DueQueue
from penstock_operator.errors import ClusterError, NotFound, NotLeading
from penstock_operator.lease import Leadership
from penstock_operator.memory import FRESH_SECONDS, Memory, back_off
from penstock_operator.observe.confirm import Confirmations
from penstock_operator.observe.objects import ObjectStore
from penstock_operator.observe.signals import PoolPods, observe_signals
from penstock_operator.observe.views import (
    Heard,
    all_pools,
    is_going,
    namespace_labels,
    owned_pods,
    pool_view,
)
from penstock_operator.observed import Observed, PoolObject, PoolView

log = logging.getLogger(__name__)

LONGEST_WAIT_SECONDS = 1.0
"""The loop turns at least this often, also to show that it lives."""


@dataclass(slots=True)
class Operation:
    """Everything the pass works with."""

    config: DecideConfig
    store: ObjectStore
    confirmations: Confirmations
    acts: PoolActs
    session: aiohttp.ClientSession
    leadership: Leadership
    keys: KeyRing | None = None
    """None until this process has led and read them: no pass runs before."""
    ready: bool = False
    """Whether the store has held all there is."""
    beat: float = field(default_factory=time.monotonic)
    """When the loop last turned, in monotonic seconds."""
    due: DueQueue = field(default_factory=DueQueue)
    memory: Memory = field(default_factory=Memory)
    _busy: set[str] = field(default_factory=set)
    _batches: set[asyncio.Task[None]] = field(default_factory=set)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self, pools: frozenset[str] | None) -> None:
        """Make pools due: those named, or every pool (None)."""
        now = time.monotonic()
        for uid in self._every_pool() if pools is None else pools:
            self.due.notify(uid, now)
        self._woken.set()

    async def run(self) -> None:
        """Visit pools as they come due, for ever."""
        while True:
            now = self.beat = time.monotonic()
            metrics.LEADER.set(self.leadership.valid(now))
            if self.ready and self.keys is not None and self.leadership.valid(now):
                batch = self.due.take(now, self._busy)
                if batch:
                    self._start(batch)
            await self._wait(now)

    async def _wait(self, now: float) -> None:
        """Wait for the next pool to come due, or for news; news may make one due sooner."""
        pause = min(max(0.0, self.due.next_at(self._busy) - now), LONGEST_WAIT_SECONDS)
        if not (self.ready and self.keys is not None and self.leadership.valid()):
            pause = LONGEST_WAIT_SECONDS
        self._woken.clear()
        try:
            await asyncio.wait_for(self._woken.wait(), max(pause, 0.001))
        except TimeoutError:
            return

    def _start(self, batch: Sequence[str]) -> None:
        self._busy.update(batch)
        task = asyncio.create_task(self._visit(batch), name="pass")
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _visit(self, batch: Sequence[str]) -> None:
        metrics.POOLS_DUE.set(len(batch))
        try:
            with metrics.PASS_SECONDS.time():
                await self._pass(batch)
        except NotLeading:
            log.info("stopped in mid-pass: the Lease is not ours")
        except Exception:
            log.exception("a pass failed; its pools are put off")
            metrics.POOL_FAILURES.labels("PassFailed").inc(len(batch))
            for uid in batch:
                self._put_off(uid)
        finally:
            self._busy.difference_update(batch)
            self._woken.set()

    async def _pass(self, batch: Sequence[str]) -> None:
        now = time.time()
        pools = await self._existing(batch)
        await self._read_signals(pools, now)
        views = [one for one in await asyncio.gather(*(self._view(p, now) for p in pools)) if one]
        plan = make_plan(self._observed(views), self._law_states(views), self.config, now)
        for failure in plan.failures:
            log.error("%s/%s could not be planned", failure.namespace, failure.name,
                      exc_info=failure.error)  # fmt: skip
            metrics.POOL_FAILURES.labels("NotPlanned").inc()
            self._put_off(failure.uid)
        await asyncio.gather(self._policies(plan), *self._acts(plan, views, now))

    async def _existing(self, batch: Sequence[str]) -> list[PoolObject]:
        """Return the pools of a batch that are to stay.

        Those that are gone are forgotten, and those that cannot be read are told so.
        """
        for uid in batch:
            if uid in self.store.unreadable:
                await telling.tell_unreadable(self.acts.statuses, self.store.unreadable[uid])
            elif uid not in self.store.pools:
                self._forget(uid)
        there = [self.store.pools[uid] for uid in batch if uid in self.store.pools]
        return [pool for pool in there if not is_going(self.store, pool)]

    async def _read_signals(self, pools: Sequence[PoolObject], now: float) -> None:
        stale = [
            pool for pool in pools if now - self.memory.of(pool.uid).signals_at >= FRESH_SECONDS
        ]
        asked = [self._pods_of(pool) for pool in stale]
        if not asked:
            return
        heard = await observe_signals(self.session, asked, now)
        for pool in stale:
            if pool.uid in heard:
                self.memory.of(pool.uid).hear_signals(heard[pool.uid], now)
                telling.count_problem(heard[pool.uid])

    def _pods_of(self, pool: PoolObject) -> PoolPods:
        memory = self.memory.of(pool.uid)
        memory.prometheus_url = prometheus_url(
            pool,
            namespace_labels(self.store, pool.namespace),
            tuple(self.store.policies.values()),
            self.config.prometheus_url,
            memory.prometheus_url,
        )
        pods = tuple(owned_pods(self.store, pool.uid))
        memory.keep_pods({pod.uid for pod in pods})
        return PoolPods(pool.uid, pool.namespace, pods, memory.prometheus_url)

    async def _view(self, pool: PoolObject, now: float) -> PoolView | None:
        """Return what decisions read, or None where the API server would not say: nothing is done blindly."""
        memory = self.memory.of(pool.uid)
        try:
            confirmed = await self.confirmations.confirm(pool, now)
        except ClusterError as error:
            log.warning("%s/%s could not be looked at: %s", pool.namespace, pool.name, error)
            self._put_off(pool.uid)
            return None
        heard = Heard(confirmed, memory.signals, memory.acknowledgements, memory.rejections)
        return pool_view(self.store, pool, heard)

    def _observed(self, views: Sequence[PoolView]) -> Observed:
        return Observed(
            pools=tuple(views),
            policies=tuple(sorted(self.store.policies.values(), key=lambda one: one.name)),
            policies_readable=not self.store.unreadable_policies,
            lease_transitions=self.leadership.transitions,
            control_keys=self.keys.public_keys() if self.keys else {},
            all_pools=all_pools(self.store),
        )

    def _law_states(self, views: Sequence[PoolView]) -> Mapping[str, object]:
        held = {view.pool.uid: self.memory.of(view.pool.uid).law_state for view in views}
        return {uid: state for uid, state in held.items() if state is not None}

    def _acts(self, plan: Plan, views: Sequence[PoolView], now: float) -> list[asyncio.Task[None]]:
        seen = {view.pool.uid: view for view in views}
        return [
            asyncio.create_task(self._act(one, seen[one.uid], now), name=f"act on {one.uid}")
            for one in plan.pools
        ]

    async def _act(self, plan: PoolPlan, view: PoolView, now: float) -> None:
        memory = self.memory.of(plan.uid)
        memory.law_state = plan.law_state
        telling.tell_decision(plan, view, memory)
        try:
            if self.keys is None:
                raise NotLeading("no longer leading")
            control = PodControl(self.session, self.keys.signer(now), time.time)
            acted = await self.acts.act(
                plan, view, control, lambda key: memory.may_try(key, now), now
            )
            self._settle(plan, acted)
        except NotLeading:
            return
        except Exception:
            log.exception("%s/%s could not be acted on", plan.namespace, plan.name)
            metrics.POOL_FAILURES.labels("NotActed").inc()
            self._put_off(plan.uid)
        finally:
            self._busy.discard(plan.uid)
            self._woken.set()

    def _settle(self, plan: PoolPlan, acted: Acted) -> None:
        """Remember what came of a plan, and when the pool is to be visited next."""
        memory, now, wall = self.memory.of(plan.uid), time.monotonic(), time.time()
        news = memory.hear_pods(acted.acknowledgements, wall)
        for rejection in acted.rejections:
            log.warning("%s %s was refused: %s", rejection.kind, rejection.name, rejection.message)
            news |= memory.hear_refusal(rejection, wall)
        for child in acted.written:
            news |= memory.hear_success(child)
        if acted.failure is not None:
            log.info("%s/%s again soon: %s", plan.namespace, plan.name, acted.failure)
            self.confirmations.forget(plan.uid)
            self._put_off(plan.uid)
            return
        memory.failures = 0
        if news:
            self.due.notify(plan.uid, now)
        hindered = bool(memory.refused) or self.confirmations.holds(plan.uid)
        self.due.next_tick(plan.uid, now, active=plan.active or hindered)

    async def _policies(self, plan: Plan) -> None:
        for one in plan.policies:
            try:
                await self.acts.statuses.write_policy(one)
            except NotFound:
                continue
            except ClusterError as error:
                log.warning("the status of policy %s was not written: %s", one.name, error)

    def _put_off(self, uid: str) -> None:
        memory = self.memory.of(uid)
        memory.failures += 1
        self.due.schedule(uid, time.monotonic() + back_off(memory.failures))

    def _forget(self, uid: str) -> None:
        telling.forget_pool(self.memory.of(uid))
        self.due.forget(uid)
        self.memory.forget(uid)
        self.confirmations.forget(uid)
        self.acts.statuses.forget(uid)
        self.acts.events.forget(uid)

    def _every_pool(self) -> list[str]:
        return [*self.store.pools, *self.store.unreadable]
