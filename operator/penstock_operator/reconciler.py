"""The pass: for the pools that are due, observe, decide, act. Level-based, and the only path that writes.

Pools that come due together are observed and decided together; each is acted on by itself, so that a slow
pod or a refused write of one pool delays no other. A failure is its pool's own: it is logged, shown, and
the pool is put off; the pass never ends for it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from penstock_api import names
from penstock_operator import reporter
from penstock_operator.act.executor import ActResults, PoolActs
from penstock_operator.act.pod_limits import PodControl
from penstock_operator.act.signing_key import SigningKeys
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.plan import Plan, PoolPlan
from penstock_operator.decide.planner import make_plan
from penstock_operator.errors import NotLeading, ObjectNotFound
from penstock_operator.kube.namespace_leases import Leases
from penstock_operator.kube.scope import Scope
from penstock_operator.observe.cluster.crd_skew import ServedSchemas
from penstock_operator.observe.cluster.views import all_pools, is_going
from penstock_operator.observe.observer import Observer
from penstock_operator.observed import Observed, PoolObject, PoolView
from penstock_operator.reconcile_state import back_off
from penstock_operator.telemetry import metrics, policy_metrics
from penstock_operator.workqueue import ACTIVE_SECONDS, WorkQueue

log = logging.getLogger(__name__)

ELSEWHERE_SECONDS = 5.0
"""Until a pool is looked at again in whose namespace another installation leads."""
COMPLAINT_SECONDS = 60.0
MAX_WAIT_SECONDS = 1.0
"""The loop turns at least this often, also to show that it lives."""


@dataclass(slots=True)
class Reconciler:
    """Everything the pass works with, and the loop that runs it."""

    config: DecideConfig
    observer: Observer
    acts: PoolActs
    leadership: Leases
    scope: Scope
    schemas: ServedSchemas
    keys: SigningKeys | None = None
    """None until this process has led and read them: no pass runs before."""
    ready: bool = False
    """Whether the store has held all there is."""
    clock: Callable[[], float] = time.time
    """Unix seconds."""
    beat: float = field(default_factory=time.monotonic)
    """When the loop last turned, in monotonic seconds."""
    due: WorkQueue = field(default_factory=WorkQueue)
    sweep_at: float = 0.0
    """When the records of pools that are gone are next looked for, in monotonic seconds."""
    _busy: set[str] = field(default_factory=set)
    _batches: set[asyncio.Task[None]] = field(default_factory=set)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _decide_seconds: float = 0.0
    """What the last decide step took: passes begin no faster than they can be decided on, and serve more pools each instead."""
    _next_pass: float = 0.0
    _complain_at: float = 0.0

    def enqueue(self, pools: frozenset[str] | None) -> None:
        """Make pools due: those named, or every pool (None). Before the store is full nothing is due."""
        if not self.ready:
            return
        now, store = time.monotonic(), self.observer.store
        for uid in [*store.pools, *store.unreadable] if pools is None else pools:
            self.due.add(uid, now)
        self._woken.set()

    async def run(self) -> None:
        """Visit pools as they come due, for ever."""
        while True:
            now = self.beat = time.monotonic()
            leading = self.leadership.valid(now)
            metrics.LEADER.set(leading)
            if self.ready and self.keys is not None and leading:
                if now >= self._next_pass and (batch := self.due.pop(now, self._busy)):
                    self._tell_late(now)
                    self._start(batch, now)
                await self._wait(max(self.due.next_at(self._busy), self._next_pass) - now)
            else:
                self._standby()
                await self._wait(MAX_WAIT_SECONDS)

    def _standby(self) -> None:
        """Decide on nothing for now, and tell of no pool: another process may decide on it."""
        self.due.rest()
        reporter.forget_all()

    async def _wait(self, seconds: float) -> None:
        """Wait for the next pool to come due, or for news, which may make one due sooner."""
        self._woken.clear()
        pause = min(max(seconds, 0.001), MAX_WAIT_SECONDS)
        try:
            # Not wait_for: before Python 3.12 it loses a cancellation that comes together with the news.
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            return

    def _tell_late(self, now: float) -> None:
        for seconds in self.due.late:
            metrics.LATE_SECONDS.observe(seconds)
        worst = max(self.due.late, default=0.0)
        if worst > ACTIVE_SECONDS and now >= self._complain_at:
            self._complain_at = now + COMPLAINT_SECONDS
            log.warning(
                "visits are up to %.0f s behind their pace: more pools work than one process can decide"
                " on every %.0f s; give the operator more CPU, or divide the namespaces among several",
                worst, ACTIVE_SECONDS,
            )  # fmt: skip

    def _start(self, batch: Sequence[str], now: float) -> None:
        self._next_pass = now + self._decide_seconds
        self._busy.update(batch)
        task = asyncio.create_task(self._visit(set(batch)), name="pass")
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _visit(self, batch: set[str]) -> None:
        """Run one pass; `batch` loses each pool as it is done with, so that it may be visited again."""
        metrics.POOLS_DUE.set(len(batch))
        try:
            with metrics.PASS_SECONDS.time():
                await self._pass(batch)
        except NotLeading:
            log.info("stopped in mid-pass: the Lease is not ours")
        except Exception:
            log.exception("a pass failed; its pools are put off")
            metrics.POOL_FAILURES.labels("PassFailed").inc(len(batch))
        finally:
            for uid in batch.copy():
                self._done(uid, batch)
                self._requeue(uid)

    async def _pass(self, batch: set[str]) -> None:
        now = self.clock()
        pools = await self._filter_actionable(batch)
        views = {view.pool.uid: view for view in await self.observer.observe(pools, now)}
        async with (
            self._deciding
        ):  # one a turn of the loop: health and the Lease's state are told in between
            plan = self._plan(list(views.values()), now)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._policies(plan, now))
            for one in plan.pools:
                group.create_task(self._act(one, views[one.uid], now, batch))

    async def _filter_actionable(self, batch: set[str]) -> list[PoolObject]:
        """Return the pools of a batch that are to stay; the others are told off or forgotten."""
        store = self.observer.store
        for uid in batch.copy():
            pool = store.pools.get(uid)
            met = pool or store.unreadable.get(uid)
            if met is not None and not self._may_act(met.namespace):
                if not self.leadership.valid_in(met.namespace):
                    reporter.forget_pool(self.observer.memory.of(uid))
                self._done(uid, batch)
                self.due.requeue_after(uid, time.monotonic() + ELSEWHERE_SECONDS)
                continue
            if pool is not None and not is_going(store, pool):
                continue
            self._done(uid, batch)
            if uid in store.unreadable:
                await reporter.report_unreadable(self.acts.statuses, store.unreadable[uid])
            elif pool is None:
                self._forget(uid)
        return [store.pools[uid] for uid in batch]

    def _may_act(self, namespace: str) -> bool:
        whole = namespace not in self.observer.store.partial
        return whole and self.leadership.valid_in(namespace)

    def _led(self) -> frozenset[str]:
        """Return the namespaces with pools where this installation acts: it divides no devices among another's."""
        namespaces = {pool.namespace for pool in self.observer.store.pools.values()}
        return frozenset(one for one in namespaces if self.leadership.valid_in(one))

    def reset(self) -> None:
        """Forget what was decided and told before this process began to lead: others may have decided since."""
        self.observer.memory.clear()
        reporter.forget_all()

    def adopt_namespaces(self, namespaces: frozenset[str]) -> None:
        """Begin to act in namespaces whose Lease was just won: what another decided there is not known here."""
        for uid, pool in self.observer.store.pools.items():
            if pool.namespace in namespaces:
                reporter.forget_pool(self.observer.memory.of(uid))
                self.observer.memory.forget(uid)
        self.enqueue(None)

    def _plan(self, views: Sequence[PoolView], now: float) -> Plan:
        store, memory = self.observer.store, self.observer.memory
        observed = Observed(
            pools=tuple(views),
            policies=tuple(sorted(store.policies.values(), key=lambda one: one.name)),
            policies_readable=self.scope.policies_readable and not store.unreadable_policies,
            lease_transitions={
                one: self.leadership.transitions_in(one)
                for one in {view.pool.namespace for view in views}
            },
            control_keys=self.keys.public_keys() if self.keys else {},
            all_pools=all_pools(store, self._led()),
            pool_schema=self.schemas.of(names.POOL_KIND),
        )
        held = {view.pool.uid: memory.of(view.pool.uid).law_state for view in views}
        states = {uid: state for uid, state in held.items() if state is not None}
        began = time.monotonic()
        plan = make_plan(observed, states, self.config, now, memory.ledger)
        self._decide_seconds = time.monotonic() - began
        self.due.decided(len(views), self._decide_seconds)
        metrics.DECIDE_SECONDS.observe(self._decide_seconds)
        memory.ledger = plan.ledger
        policy_metrics.record_plan(plan)
        if plan.disturbed:
            self.enqueue(plan.disturbed)
        for failure in plan.failures:
            name = f"{failure.namespace}/{failure.name}"
            log.error("%s could not be planned", name, exc_info=failure.error)
            metrics.POOL_FAILURES.labels("NotPlanned").inc()
        return plan

    async def _act(self, plan: PoolPlan, view: PoolView, now: float, batch: set[str]) -> None:
        memory = self.observer.memory.of(plan.uid)
        memory.law_state = plan.law_state
        reporter.report_decision(plan, view, memory)
        try:
            if self.keys is None:
                return
            leading = partial(self.leadership.valid_in, plan.namespace)
            signer = self.keys.signer(now)
            control = PodControl(self.observer.pods_session, signer, self.clock, leading)
            acted = await self.acts.act(
                plan, view, control, lambda write: memory.should_retry(write, now), now
            )
            self._done(plan.uid, batch)
            self._settle(plan, acted)
        except NotLeading:
            return
        except Exception:
            log.exception("%s/%s could not be acted on", plan.namespace, plan.name)
            metrics.POOL_FAILURES.labels("NotActed").inc()

    def _settle(self, plan: PoolPlan, acted: ActResults) -> None:
        """Remember what came of a plan, and when the pool is to be visited next."""
        memory, wall = self.observer.memory.of(plan.uid), self.clock()
        news = memory.record_acks(acted.acknowledgements, wall)
        news |= memory.record_write_results(plan.writes, acted.rejected, wall)
        if acted.failure is not None:
            log.info("%s/%s again soon: %s", plan.namespace, plan.name, acted.failure)
            self.observer.confirmations.forget(plan.uid)
            self._requeue(plan.uid)
            return
        memory.failures, now = 0, time.monotonic()
        if news:
            self.due.add(plan.uid, now)
        hindered = bool(memory.refused) or self.observer.confirmations.holds(plan.uid)
        self.due.schedule_resync(plan.uid, now, active=plan.active or hindered)

    async def _policies(self, plan: Plan, now: float) -> None:
        """Say on policies what they do; not where only some of the pools under them are seen."""
        if self.scope.namespaces is not None:
            return
        for one in plan.policies:
            try:
                await self.acts.statuses.write_policy(one, now)
            except (ObjectNotFound, NotLeading):
                continue
            except Exception:
                log.exception("the status of policy %s was not written", one.name)

    def _requeue(self, uid: str) -> None:
        memory = self.observer.memory.of(uid)
        memory.failures += 1
        self.due.requeue_after(uid, time.monotonic() + back_off(memory.failures))

    def _done(self, uid: str, batch: set[str]) -> None:
        batch.discard(uid)
        self._busy.discard(uid)
        self._woken.set()

    def _forget(self, uid: str) -> None:
        self.sweep_at = 0.0
        self.due.forget(uid)
        reporter.forget_pool(self.observer.memory.of(uid))
        self.observer.memory.forget(uid)
        self.observer.confirmations.forget(uid)
        self.acts.statuses.forget(uid)
        self.acts.events.forget(uid)
