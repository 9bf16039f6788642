"""Reports of the reconciler: a log line and metrics for each decision, and a condition on an unreadable pool."""

import logging
import time
from datetime import UTC, datetime

from penstock_api.conditions import condition, merge
from penstock_api.types.status import PoolStatus
from penstock_operator.act.status import Statuses
from penstock_operator.decide.limits import unacknowledged_pods
from penstock_operator.decide.plan import PlanFigures, PoolPlan
from penstock_operator.decide.status.conditions.kstatus import STALLED
from penstock_operator.errors import ClusterError
from penstock_operator.observe.cluster.cache import Unreadable
from penstock_operator.observed import PoolView
from penstock_operator.reconcile_state import PoolState
from penstock_operator.telemetry import decision_log, metrics, policy_metrics
from penstock_operator.telemetry.logs import fields
from penstock_operator.telemetry.pool_metrics import (
    SERIES_UNREADABLE,
    SERIES_WITH_VARIANTS,
    PoolRow,
)

log = logging.getLogger("penstock_operator.decisions")


def report_decision(plan: PoolPlan, view: PoolView, state: PoolState) -> None:
    """Set the pool's metrics, and log the decision if it differs from the last one (`telemetry/decision_log.py`).

    A pool with variants has no log of decisions: the pools of its variants have theirs.
    """
    with_variants = bool(view.pool.spec.variants)
    decision = plan.status.last_decision
    name = state.labels = {"namespace": plan.namespace, "pool": plan.name}
    row = _row(plan, state.figures, SERIES_WITH_VARIANTS if with_variants else None)
    row.last_decision, row.figures = time.time(), plan.figures
    row.ready = sum(pod.ready for pod in view.pods)
    row.unacknowledged = 0 if plan.limits is None else len(unacknowledged_pods(view, plan.limits))
    state.figures = plan.figures
    if with_variants:
        return
    _report_law_failure(plan, state)
    key, before = decision_log.key(plan), state.logged_decision
    if key == before:
        return
    state.logged_decision = key
    if decision is not None and (before is None or before.decided != key.decided):
        metrics.DECISIONS.labels(decision.acted, decision.cap_term, decision.replicas_term).inc()
        summary = decision.message
    else:
        summary = f"{key.replicas} replicas, cap {key.cap}, generation {key.generation}"
    log.info("decided: %s", summary, extra=fields(**name, **decision_log.record(plan, view)))


def _report_law_failure(plan: PoolPlan, state: PoolState) -> None:
    """Count a failed step of the control law, and log each new place of failure once, with the inputs to reproduce it."""
    failure = plan.law_failure
    if failure is None:
        return
    metrics.POOL_FAILURES.labels("LawFailed").inc()
    if state.logged_law_failure == failure.place:
        return
    state.logged_law_failure = failure.place
    log.error(
        "%s/%s: the control law failed; the replica count and the batch cap stay unchanged",
        plan.namespace,
        plan.name,
        exc_info=failure.error,
        extra=fields(namespace=plan.namespace, pool=plan.name, failure=failure.report()),
    )


def _row(plan: PoolPlan, before: PlanFigures | None, exported: frozenset[str] | None) -> PoolRow:
    """Return the pool's row, with counters increased by the growth since `before` (None: the first reconcile).

    A row with other series, such as of the pool while its spec was unreadable, is replaced.
    """
    now, key = plan.figures, (plan.namespace, plan.name)
    row = metrics.POOLS.rows.get(key)
    if row is not None and row.exported != exported:
        row = before = None
    if row is None:
        row = metrics.POOLS.rows[key] = PoolRow(0.0, 0, 0, now, exported=exported)
    if before is None:
        row.rising = None
        return row
    row.good += max(now.objective_good - before.objective_good, 0.0)
    row.requests += max(now.objective_total - before.objective_total, 0.0)
    if now.granted != before.granted:
        rises = now.granted > before.granted
        row.reversals += row.rising is not None and row.rising is not rises
        row.rising = rises
    return row


def set_unreadable_metrics(pool: Unreadable, state: PoolState) -> None:
    """Replace the series of a pool whose spec is unreadable by that of its condition Stalled."""
    state.labels = {"namespace": pool.namespace, "pool": pool.name}
    state.figures = PlanFigures(
        desired=0, granted=0, at_limit=False, signals_absent=False, contested=False, stalled=True,
        demand=None, forecast=None, forecast_error=None, utilization=None, imbalance=None,
        startup_seconds=None, signal_age_seconds=None,
    )  # fmt: skip
    metrics.POOLS.rows[pool.namespace, pool.name] = PoolRow(
        0.0, 0, 0, state.figures, exported=SERIES_UNREADABLE
    )
    policy_metrics.forget_pool(pool.namespace, pool.name)


def forget_pool(state: PoolState) -> None:
    """Drop the series of a deleted pool, or of one that another installation now decides on.

    They stay if they are those of a pool that was created again under the same name.
    """
    if state.labels:
        namespace, pool = state.labels["namespace"], state.labels["pool"]
        row = metrics.POOLS.rows.get((namespace, pool))
        if row is not None and row.figures is not state.figures:
            return
        metrics.POOLS.forget(namespace, pool)
        policy_metrics.forget_pool(namespace, pool)


def forget_all() -> None:
    """Drop the series of every pool and policy, so that stale values are not scraped."""
    metrics.POOLS.rows.clear()
    policy_metrics.forget_all()


async def report_unreadable(statuses: Statuses, pool: Unreadable) -> bool:
    """Set Ready=False/SpecNotUnderstood, and Stalled, on a pool whose spec has a newer schema; once per generation.

    All but the conditions stays: an autoscaler reads the replica counts and the selector. Return False if that failed.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    reason, message = "SpecNotUnderstood", f"{pool.message}: upgrade the operator"
    ready = condition("Ready", status=False, reason=reason, message=message)
    stalled = condition(STALLED, status=True, reason=reason, message=message)
    status = PoolStatus(
        observed_generation=pool.generation,
        conditions=merge((), (ready, stalled), pool.generation, now),
    )
    try:
        await statuses.write_unreadable(pool, status)
    except ClusterError as error:
        log.warning(
            "%s/%s: the spec is unreadable (%s), and writing its status failed: %s",
            pool.namespace, pool.name, pool.message, error,
            extra=fields(namespace=pool.namespace, pool=pool.name),
        )  # fmt: skip
        return False
    return True
