"""What the pass tells people: a log line and metrics for each decision, a condition where it cannot read."""

import logging
import time
from datetime import UTC, datetime

from penstock_api.conditions import condition, merge
from penstock_api.types.status import PoolStatus
from penstock_operator.act.status import Statuses
from penstock_operator.decide.limits import behind
from penstock_operator.decide.plan import PlanFigures, PoolPlan
from penstock_operator.errors import ClusterError
from penstock_operator.observe.cluster.cache import Unreadable
from penstock_operator.observed import PoolView
from penstock_operator.reconcile_state import PoolState
from penstock_operator.telemetry import decision_log, metrics, policy_metrics
from penstock_operator.telemetry.logs import fields
from penstock_operator.telemetry.pool_metrics import PoolRow

log = logging.getLogger("penstock_operator.decisions")


def report_decision(plan: PoolPlan, view: PoolView, memory: PoolState) -> None:
    """Log a decision that differs from the pool's last (`telemetry/decision_log.py`), and set the pool's metrics."""
    decision = plan.status.last_decision
    name = memory.labels = {"namespace": plan.namespace, "pool": plan.name}
    row = _row(plan, memory.figures)
    row.last_decision, row.figures = time.time(), plan.figures
    row.ready = sum(pod.ready for pod in view.pods)
    row.unacknowledged = 0 if plan.limits is None else len(behind(view, plan.limits))
    memory.figures = plan.figures
    _tell_law_failure(plan, memory)
    now, held = decision_log.mark(plan), memory.audited
    if now == held:
        return
    memory.audited = now
    if decision is not None and (held is None or held.decided != now.decided):
        metrics.DECISIONS.labels(decision.acted, decision.cap_term, decision.replicas_term).inc()
        what = decision.message
    else:
        what = f"{now.replicas} replicas, cap {now.cap}, generation {now.generation}"
    log.info("decided: %s", what, extra=fields(**name, **decision_log.record(plan, view)))


def _tell_law_failure(plan: PoolPlan, memory: PoolState) -> None:
    """Count a failed step of the control law; log an error once, with what reproduces it, until another takes its place."""
    failure = plan.law_failure
    if failure is None:
        return
    metrics.POOL_FAILURES.labels("LawFailed").inc()
    if memory.law_failure == failure.place:
        return
    memory.law_failure = failure.place
    log.error(
        "%s/%s: the control law failed; the replica count and the batch cap stay",
        plan.namespace,
        plan.name,
        exc_info=failure.error,
        extra=fields(namespace=plan.namespace, pool=plan.name, failure=failure.report()),
    )


def _row(plan: PoolPlan, before: PlanFigures | None) -> PoolRow:
    """Return the pool's row, and count in it what grew since the figures `before`; None: the pool was just met."""
    now, key = plan.figures, (plan.namespace, plan.name)
    row = metrics.POOLS.rows.setdefault(key, PoolRow(0.0, 0, 0, now))
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


def forget_pool(memory: PoolState) -> None:
    """Drop the series of a pool that is gone, or on which another installation decides now."""
    if memory.labels:
        namespace, pool = memory.labels["namespace"], memory.labels["pool"]
        metrics.POOLS.forget(namespace, pool)
        policy_metrics.forget_pool(namespace, pool)


def forget_all() -> None:
    """Drop the series of every pool and policy: what was told last is not true of them for ever."""
    metrics.POOLS.rows.clear()
    policy_metrics.forget_all()


async def report_unreadable(statuses: Statuses, pool: Unreadable) -> None:
    """Say on a pool that its spec is of a newer schema than this operator; once a generation."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = condition(
        "Ready",
        status=False,
        reason="SpecNotUnderstood",
        message=f"{pool.message}: upgrade the operator",
    )
    status = PoolStatus(conditions=merge((), (said,), pool.generation, now))
    try:
        await statuses.write_unreadable(pool, status)
    except ClusterError as error:
        log.warning("%s/%s cannot be read (%s), nor told so: %s", pool.namespace, pool.name,
                    pool.message, error)  # fmt: skip
