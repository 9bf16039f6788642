"""What the pass tells people: a log line and metrics for each decision, a condition where it cannot read."""

import logging
import time
from datetime import UTC, datetime

from penstock_api.conditions import condition, merge
from penstock_api.status import PoolStatus
from penstock_operator import audit, metrics
from penstock_operator.act.status import Statuses
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.errors import ClusterError
from penstock_operator.logs import fields
from penstock_operator.memory import PoolMemory
from penstock_operator.observe.objects import Unreadable
from penstock_operator.observed import PoolView

log = logging.getLogger("penstock_operator.decisions")


def tell_decision(plan: PoolPlan, view: PoolView, memory: PoolMemory) -> None:
    """Log a decision that differs from the pool's last (`audit.py`), and set the pool's metrics."""
    decision = plan.status.last_decision
    name = memory.labels = {"namespace": plan.namespace, "pool": plan.name}
    metrics.LAST_DECISION.labels(**name).set(time.time())
    metrics.REPLICAS_READY.labels(**name).set(sum(pod.ready for pod in view.pods))
    metrics.UNACKNOWLEDGED_PODS.labels(**name).set(len(plan.pushes))
    metrics.tell_figures(name, plan.figures)
    _count(plan, memory, name)
    now, held = audit.mark(plan), memory.audited
    if now == held:
        return
    memory.audited = now
    if decision is not None and (held is None or held.decided != now.decided):
        metrics.DECISIONS.labels(decision.acted, decision.cap_term, decision.replicas_term).inc()
        what = decision.message
    else:
        what = f"{now.replicas} replicas, cap {now.cap}, generation {now.generation}"
    log.info("decided: %s", what, extra=fields(**name, **audit.record(plan, view)))


def _count(plan: PoolPlan, memory: PoolMemory, name: dict[str, str]) -> None:
    """Count what grew since the pool's last decision: requests, and turns of its count."""
    figures, before = plan.figures, memory.figures
    memory.figures = figures
    if before is None:
        metrics.REVERSALS.labels(**name)
        metrics.OBJECTIVE_GOOD.labels(**name)
        metrics.OBJECTIVE_TOTAL.labels(**name)
        return
    good = figures.objective_good - before.objective_good
    total = figures.objective_total - before.objective_total
    metrics.OBJECTIVE_GOOD.labels(**name).inc(max(good, 0.0))
    metrics.OBJECTIVE_TOTAL.labels(**name).inc(max(total, 0.0))
    if figures.granted != before.granted:
        rises = figures.granted > before.granted
        if memory.rising is not None and memory.rising is not rises:
            metrics.REVERSALS.labels(**name).inc()
        memory.rising = rises


def forget_pool(memory: PoolMemory) -> None:
    """Drop the series of a pool that is gone."""
    if memory.labels:
        metrics.forget_pool(memory.labels)


async def tell_unreadable(statuses: Statuses, pool: Unreadable) -> None:
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
