"""A decision as the status tells it: what was seen and wanted, what bound it, what else would have cost. Pure.

Texts stay the same while their cause does, so that an unchanged pool writes nothing; what is dear to reckon is
reckoned only where the decision is new.
"""

from dataclasses import dataclass

from penstock_api.types.decision import (
    AlternativeStatus,
    BoundBy,
    CurveStatus,
    LastDecision,
    ScalingStatus,
    TermCount,
)
from penstock_api.types.live import ScalingMode
from penstock_operator.decide.scaling.law import CurveInUse, Decision
from penstock_operator.decide.scaling.reasons import ReplicasReason
from penstock_operator.decide.scaling.report.alternatives import alternatives
from penstock_operator.decide.scaling.report.conditions import rfc3339
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import PoolSignals

MAX_MESSAGE, MAX_ASKED, MAX_ALTERNATIVES = 1024, 8, 8
"""The schema's own bounds."""
TERM_BOUNDS: dict[str, BoundBy] = {
    ReplicasReason.STABILIZING: "Stabilization",
    ReplicasReason.RATE_LIMITED: "RateLimit",
    ReplicasReason.SIGNALS_ABSENT: "Signals",
}
MAX_FIGURE = 1e12
"""Beyond it a figure says nothing, and would not fit."""


@dataclass(frozen=True, slots=True)
class ReportedDecision:
    """A decision, and what became of it."""

    effective: EffectiveSpec
    decision: Decision
    acted: str
    accelerators: int
    """Devices of one replica."""
    shortage: str = ""
    """GpuBudget | Cluster where others' needs kept replicas from it; else empty."""


def bound_by(told: ReportedDecision) -> BoundBy | None:
    """Return what keeps the count from what the law's terms ask for; None: nothing does."""
    if told.shortage == "GpuBudget":
        return "GpuBudget"
    if told.shortage == "Cluster":
        return "Cluster"
    term = told.decision.replicas_term
    if term == ReplicasReason.MAX_REPLICAS:
        fields = {one.field for one in told.effective.bounded}
        return "Policy" if "spec.scaling.maxReplicas" in fields else "MaxReplicas"
    if told.effective.scaling_mode is ScalingMode.HOLD and told.acted == "Held":
        return "Mode"
    return TERM_BOUNDS.get(term)


def last_decision(before: LastDecision | None, told: ReportedDecision, now: float) -> LastDecision:
    """Return the decision for the status; one that wants the same again keeps its time and words."""
    decision, algorithm = told.decision, told.effective.algorithm.value
    said = (decision.cap, decision.replicas, told.acted, algorithm)
    if before is not None and said == (before.cap, before.replicas, before.acted, before.algorithm):
        return before
    return LastDecision(
        time=rfc3339(now),
        algorithm=algorithm,
        cap=decision.cap,
        replicas=decision.replicas,
        cap_term=decision.cap_term,
        replicas_term=decision.replicas_term,
        acted=told.acted,
        bound_by=bound_by(told),
        hold_until=None if decision.hold_until is None else rfc3339(decision.hold_until),
        asked=_asked(decision) or None,
        alternatives=_alternatives(told) or None,
        message=decision.message[:MAX_MESSAGE],
    )


def scaling_status(told: ReportedDecision, signals: PoolSignals) -> ScalingStatus:
    """Return what the law saw, as decimal strings; what is absent is left out."""
    decision = told.decision
    seen = decision.observations
    return ScalingStatus(
        source=signals.source.value,
        prometheus_url=signals.url or None,
        duty_source=None if seen.duty_source is None else seen.duty_source.value,
        signal_age_seconds=decimal(seen.signal_age_seconds),
        gpu_utilization_percent=decimal(seen.duty, 100.0),
        waiting=decimal(seen.waiting),
        rows_per_second=decimal(seen.rows_per_second),
        forecast_rows_per_second=decimal(seen.forecast_rows_per_second),
        batch_p99_milliseconds=decimal(seen.batch_p99_seconds, 1000.0),
        batch_time_target_milliseconds=decimal(seen.batch_target_seconds, 1000.0),
        curve=None if seen.curve is None else _curve(seen.curve),
        planned_cap=seen.planned_cap,
        rows_per_second_per_replica=decimal(seen.capacity_per_replica),
        effective_utilization_percent=decimal(seen.utilization, 100.0),
        utilization_target_percent=decimal(seen.utilization_target, 100.0),
        imbalance=decimal(seen.imbalance, digits=2),
        predicted_p99_milliseconds=decimal(seen.predicted_p99_seconds, 1000.0),
        startup_p90_seconds=decimal(seen.startup_seconds),
        cap_term=decision.cap_term,
        replicas_term=decision.replicas_term,
        bound_by=bound_by(told),
        hold_until=None if decision.hold_until is None else rfc3339(decision.hold_until),
    )


def decimal(value: float | None, scale: float = 1.0, digits: int = 1) -> str | None:
    """Return a decimal string; None stays None."""
    if value is None:
        return None
    return f"{min(max(value * scale, -MAX_FIGURE), MAX_FIGURE):.{digits}f}"


def _figure(value: float, scale: float = 1.0, digits: int = 1) -> str:
    return decimal(value, scale, digits) or "0"


def _curve(seen: CurveInUse) -> CurveStatus:
    return CurveStatus(
        intercept_milliseconds=_figure(seen.a, 1000.0, 2),
        milliseconds_per_row=_figure(seen.c, 1000.0, 3),
        r_squared=decimal(seen.r_squared, digits=3),
        mean_rows=_figure(seen.mean_rows),
        largest_rows=decimal(seen.largest_rows),
    )


def _asked(decision: Decision) -> tuple[TermCount, ...]:
    return tuple(
        TermCount(term=one.term, replicas=_figure(one.replicas, digits=2))
        for one in decision.demands[:MAX_ASKED]
    )


def _alternatives(told: ReportedDecision) -> tuple[AlternativeStatus, ...]:
    found = alternatives(told.decision, told.effective.law)[:MAX_ALTERNATIVES]
    return tuple(
        AlternativeStatus(
            replicas=one.replicas,
            cap=one.cap,
            accelerators=one.replicas * told.accelerators,
            utilization_percent=_figure(one.utilization, 100.0),
            predicted_p99_milliseconds=decimal(one.p99_seconds, 1000.0),
            verdict=one.verdict.value,
        )
        for one in found
    )
