"""One pass over a batch of pools: observe, decide, act. Level-based, and the only code that writes.

The pools of a batch are observed and decided together; each is acted on separately, so that a slow pod or a rejected
write of one pool delays no other. A failed pool is logged, counted and requeued with back-off; the others continue.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from penstock_api import names
from penstock_operator.act.executor import ActResults, PoolActs
from penstock_operator.act.pod_limits import PodControl
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.workload import waiting_workload
from penstock_operator.decide.plan import Plan, PoolPlan
from penstock_operator.decide.planning.planner import make_plan
from penstock_operator.errors import ClusterError, NotLeading, ObjectNotFound
from penstock_operator.kube.scope import Scope
from penstock_operator.observe.cluster.cache import Unreadable
from penstock_operator.observe.cluster.crd_skew import ServedSchemas
from penstock_operator.observe.cluster.gateway import routed_pools
from penstock_operator.observe.cluster.views import all_pools, deleted_pools, is_terminating
from penstock_operator.observe.observer import Observer
from penstock_operator.observed import Observed, PoolObject, PoolView
from penstock_operator.reconcile_state import BackOffs, back_off
from penstock_operator.reconciler import reporter
from penstock_operator.reconciler.cleanup import PoolCleanup
from penstock_operator.reconciler.leader_state import LeaderState
from penstock_operator.reconciler.workqueue import WorkQueue
from penstock_operator.telemetry import metrics, policy_metrics
from penstock_operator.telemetry.logs import fields

log = logging.getLogger(__name__)

ELSEWHERE_SECONDS = 5.0
"""Requeue delay of a pool in a namespace where another installation leads."""


@dataclass(slots=True)
class PassRunner:
    """Runs passes and requeues their pools."""

    config: DecideConfig
    observer: Observer
    acts: PoolActs
    leader: LeaderState
    scope: Scope
    schemas: ServedSchemas
    queue: WorkQueue = field(default_factory=WorkQueue)
    clock: Callable[[], float] = time.time
    """Unix seconds."""
    cleanup: PoolCleanup = field(init=False)
    decide_seconds: float = 0.0
    """Duration of the last decide step."""
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _policy_back_offs: BackOffs = field(default_factory=BackOffs)
    """Of failed statuses of policies, by name."""
    _reports: set[asyncio.Task[None]] = field(default_factory=set)
    """Reports of unreadable pools in progress."""

    def __post_init__(self) -> None:
        self.cleanup = PoolCleanup(self.observer, self.acts, self.queue)

    async def run(self, batch: set[str]) -> None:
        """Run one pass over the pools of `batch`, by UID; finished pools are removed from it.

        Raises:
            NotLeading: the Lease was lost.
        """
        now = self.clock()
        pools = self.filter_actionable(batch)
        views = {view.pool.uid: view for view in await self.observer.observe(pools, now)}
        async with (
            self._deciding
        ):  # one decide step per event-loop iteration: health probes are answered in between
            plan = self._plan(list(views.values()), now)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_policies(plan, now))
            for pool_plan in plan.pools:
                group.create_task(self._act(pool_plan, views[pool_plan.uid], now, batch))

    def requeue_all(self, batch: set[str]) -> None:
        """Requeue every pool that a pass left in `batch`, with back-off."""
        for uid in batch.copy():
            self._done(uid, batch)
            self._requeue(uid)

    def filter_actionable(self, batch: set[str]) -> list[PoolObject]:
        """Return the pools of a batch to act on; the others are requeued, reported unreadable, or forgotten."""
        store = self.observer.store
        for uid in batch.copy():
            pool = store.pools.get(uid) or store.unreadable.get(uid)
            if pool is None:
                self._done(uid, batch)
                self.cleanup.forget(uid)
            elif not self._may_act(pool.namespace):
                self._done(uid, batch)
                self._leave(uid, pool.namespace)
            elif is_terminating(store, pool):  # left to Kubernetes
                self._done(uid, batch)
                self.cleanup.drop_metrics(uid)
            elif isinstance(pool, Unreadable):
                batch.discard(uid)
                self._report(pool)
        return [store.pools[uid] for uid in batch]

    def _may_act(self, namespace: str) -> bool:
        complete = namespace not in self.observer.store.partial
        return complete and self.leader.leads_in(namespace)

    def _leave(self, uid: str, namespace: str) -> None:
        """Requeue a pool that another installation leads, or whose namespace cannot be read completely."""
        if not self.leader.leads_in(namespace):
            self.cleanup.drop_metrics(uid)
        self.queue.requeue_after(uid, time.monotonic() + ELSEWHERE_SECONDS)

    def _report(self, pool: Unreadable) -> None:
        """Start to report an unreadable pool: a write that waits for its turn delays no other pool of the batch."""
        reporter.set_unreadable_metrics(pool, self.observer.state.of(pool.uid))
        task = asyncio.create_task(self._report_unreadable(pool), name="report")
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _report_unreadable(self, pool: Unreadable) -> None:
        reported = False
        try:
            reported = await reporter.report_unreadable(self.acts.statuses, pool)
        except NotLeading:
            reported = True  # the next leader reports it
        except Exception:
            about = fields(namespace=pool.namespace, pool=pool.name)
            log.exception(
                "%s/%s: reporting the unreadable spec failed",
                pool.namespace, pool.name, extra=about,
            )  # fmt: skip
            metrics.POOL_FAILURES.labels("NotActed").inc()
        finally:
            self.queue.done(pool.uid)
            if reported:  # its metrics end when another installation leads in its namespace
                self.queue.schedule_resync(pool.uid, time.monotonic(), active=False)
            else:
                self._requeue(pool.uid)

    def _plan(self, views: Sequence[PoolView], now: float) -> Plan:
        """Run the decide step and store its results."""
        state = self.observer.state
        observed = self._observed(views)
        law_states = {
            view.pool.uid: law_state
            for view in views
            if (law_state := state.of(view.pool.uid).law_state) is not None
        }
        began = time.monotonic()
        plan = make_plan(observed, law_states, self.config, now, state.ledger)
        self._record_decide_time(len(views), time.monotonic() - began)
        state.ledger = plan.ledger
        policy_metrics.record_plan(plan)
        for uid in plan.affected:
            self.queue.add(uid, time.monotonic())
        for failure in plan.failures:
            log.error(
                "%s/%s: planning failed",
                failure.namespace,
                failure.name,
                exc_info=failure.error,
                extra=fields(namespace=failure.namespace, pool=failure.name),
            )
            metrics.POOL_FAILURES.labels("NotPlanned").inc()
        return plan

    def _observed(self, views: Sequence[PoolView]) -> Observed:
        store, namespaces = self.observer.store, self._led_namespaces()
        return Observed(
            pools=tuple(views),
            policies=tuple(sorted(store.policies.values(), key=lambda policy: policy.name)),
            policies_readable=self.scope.policies_readable,
            unreadable_policies=tuple(store.unreadable_policies.values()),
            lease_transitions=self.leader.transitions({view.pool.namespace for view in views}),
            control_keys=self.leader.public_keys(),
            all_pools=all_pools(store, namespaces),
            deleted_pools=deleted_pools(store, namespaces),
            unreadable_pools=frozenset(store.unreadable),
            pool_schema=self.schemas.of(names.POOL_KIND),
            routed_pools=routed_pools(store, namespaces),
        )

    def _led_namespaces(self) -> frozenset[str]:
        """Return the namespaces with pools where this installation acts: budgets are divided among these alone."""
        store = self.observer.store
        namespaces = {pool.namespace for pool in (*store.every_pool(), *store.deleted.values())}
        return frozenset(filter(self.leader.leads_in, namespaces))

    def _record_decide_time(self, pools: int, seconds: float) -> None:
        self.decide_seconds = seconds
        self.queue.record_decide_time(pools, seconds)
        metrics.DECIDE_SECONDS.observe(seconds)

    async def _act(self, plan: PoolPlan, view: PoolView, now: float, batch: set[str]) -> None:
        state = self.observer.state.of(plan.uid)
        state.law_state = plan.law_state
        reporter.report_decision(plan, view, state)
        try:
            signer = self.leader.signer(now)
            if signer is None:
                return
            leading = partial(self.leader.leads_in, plan.namespace)
            control = PodControl(
                self.observer.pods_session, signer, self.clock, leading, state.calls
            )
            results = await self.acts.act(
                plan, view, control, lambda write: state.should_retry(write, now), now
            )
            self._done(plan.uid, batch)
            self._complete(plan, view, results)
        except NotLeading:
            return
        except Exception:
            about = fields(namespace=plan.namespace, pool=plan.name)
            log.exception(
                "%s/%s: executing the plan failed", plan.namespace, plan.name, extra=about
            )
            metrics.POOL_FAILURES.labels("NotActed").inc()

    def _complete(self, plan: PoolPlan, view: PoolView, results: ActResults) -> None:
        """Record the results of a plan and schedule the pool's next reconcile."""
        state, wall = self.observer.state.of(plan.uid), self.clock()
        changed = state.record_acks(results.acknowledgements, wall)
        changed |= state.record_write_results(
            plan.writes, results.stored, results.rejected, wall, waiting_workload(view)
        )
        if results.failure is not None:
            about = fields(namespace=plan.namespace, pool=plan.name)
            log.info(
                "%s/%s: requeued with back-off: %s",
                plan.namespace, plan.name, results.failure, extra=about,
            )  # fmt: skip
            self.observer.confirmations.forget(plan.uid)
            self._requeue(plan.uid)
            return
        state.failures, now = 0, time.monotonic()
        if changed:
            self.queue.add(plan.uid, now)
        blocked = bool(state.rejected) or self.observer.confirmations.has_foreign(plan.uid)
        self.queue.schedule_resync(plan.uid, now, active=plan.active or blocked)

    async def _write_policies(self, plan: Plan, now: float) -> None:
        """Write the statuses of policies; none in scope Namespaces, where only some of their pools are visible."""
        if self.scope.namespaces is not None:
            return
        for policy in plan.policies:
            if not self._policy_back_offs.due(policy.name, now):
                continue
            try:
                await self.acts.statuses.write_policy(policy, now)
            except (ObjectNotFound, NotLeading):
                continue
            except ClusterError as error:
                self._policy_back_offs.extend(policy.name, now)
                log.warning("failed to write the status of policy %s: %s", policy.name, error)
            except Exception:
                self._policy_back_offs.extend(policy.name, now)
                log.exception("failed to write the status of policy %s", policy.name)
            else:
                self._policy_back_offs.end(policy.name)

    def _requeue(self, uid: str) -> None:
        state = self.observer.state.of(uid)
        state.failures += 1
        self.queue.requeue_after(uid, time.monotonic() + back_off(state.failures))

    def _done(self, uid: str, batch: set[str]) -> None:
        batch.discard(uid)
        self.queue.done(uid)
