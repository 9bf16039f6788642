"""Replicas for batch work: demand without urgency, planned by what is left of it over the time that remains. Pure.

A law decides for the demand that cannot wait. Batch work first takes the capacity that this leaves, and adds replicas only
within `spec.batchWork.maxReplicas`. It never lowers a law's count, and devices that are short go to other demand first.
"""

from collections.abc import Iterable
from math import ceil
from typing import Final, NamedTuple

from penstock_api.batch_rate import required_rate
from penstock_api.types.batch_work import BatchWorkSpec
from penstock_operator.decide.scaling.capacity_at_objective.replicas import UTILIZATION
from penstock_operator.decide.scaling.law import BatchWorkPlan, Decision
from penstock_operator.decide.scaling.reasons import ReplicasMove, ReplicasReason, counted
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import BatchLoad

MIN_SECONDS: Final = 60.0
"""Shortest remaining time that is planned for: a replica that starts now serves nothing sooner."""
MAX_REPLICAS: Final = 1e6
MAX_LINES: Final = 10**12
MAX_ROWS: Final = 1e6
"""Upper bound on the rows of a line."""
LEAST_CAPACITY: Final = 1e-6
"""Rows a second of a replica below which its capacity counts as unknown."""


class BatchDemand(NamedTuple):
    """Batch work of a pool."""

    lines_left: int
    rate: float
    """Lines a second with which all batches end in time."""
    most: int
    """Replicas that it may add."""
    rows_per_line: float = 1.0


def batch_demand(
    settings: BatchWorkSpec | None, batches: tuple[BatchLoad, ...] | None, now: float
) -> BatchDemand | None:
    """Return the batch work of a pool; None without any, or while it is unknown."""
    if settings is None or not batches:
        return None
    lines = min(sum(batch.lines_left for batch in batches), MAX_LINES)
    rate = planned_rate(batches, settings.deadline_seconds, now)
    rows = min(max(batch.rows_per_line for batch in batches), MAX_ROWS)
    return BatchDemand(lines, rate, settings.max_replicas or 0, rows)


def planned_rate(batches: Iterable[BatchLoad], deadline_seconds: int | None, now: float) -> float:
    """Return the rate, in lines a second, at which every batch ends by its deadline, or the pool's if that is earlier."""
    return required_rate(
        (_remaining(batch, deadline_seconds, now), batch.lines_left) for batch in batches
    )


def _remaining(batch: BatchLoad, deadline_seconds: int | None, now: float) -> float:
    end = batch.expires
    if deadline_seconds is not None:
        end = min(end, batch.created + deadline_seconds)
    return max(end - now, MIN_SECONDS)


def batch_step(
    decision: Decision,
    settings: BatchWorkSpec | None,
    law: LawSettings,
    batches: tuple[BatchLoad, ...] | None,
    now: float,
) -> Decision:
    """Return a law's decision with the replicas for batch work; unchanged while a replica's capacity is unknown."""
    each = decision.observations.capacity_per_replica
    batch = batch_demand(settings, batches, now)
    if batch is None or not decision.demands or each is None or each < LEAST_CAPACITY:
        return decision
    replicas = min(batch.rate * batch.rows_per_line / (UTILIZATION * each), MAX_REPLICAS)
    need = max(demand.replicas for demand in decision.demands)
    least = max(ceil(need - 1e-9), law.min_replicas)
    most = min(least + batch.most, law.max_replicas)
    total = min(max(ceil(min(need + replicas, MAX_REPLICAS) - 1e-9), least), most)
    plan = BatchWorkPlan(batch.lines_left, batch.rate, replicas, added=max(total - least, 0))
    decision = decision._replace(batch_work=plan)
    return _with_replicas(decision, plan, total) if plan.added else decision


def _with_replicas(decision: Decision, plan: BatchWorkPlan, total: int) -> Decision:
    """Return the decision with the count that batch work needs; a law's higher count stays."""
    if total < decision.replicas:
        return decision
    why = (
        f"{plan.lines_left} lines of batches need {plan.rate:.1f} lines/s to end in time, {plan.replicas:.1f} replicas;"
        f" {counted(plan.added)} added to {total - plan.added}"
    )
    return decision.with_count(ReplicasMove(total, ReplicasReason.BATCH_WORK, why))
