"""Status fields of a decision: observations, wanted values, bounds and alternatives. Pure.

A text is unchanged while its cause is unchanged, so that an unchanged pool writes nothing; alternatives are computed only
for a new decision.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock_api.hold import StartPart
from penstock_api.types.decision import (
    AlternativeStatus,
    BatchWorkStatus,
    CurveStatus,
    LastDecision,
    ScalingStatus,
    StartStatus,
    TermCount,
)
from penstock_api.types.scaling import ScalingMode
from penstock_operator.decide.scaling.law import BatchWorkPlan, CurveInUse, Decision
from penstock_operator.decide.scaling.reasons import ReplicasReason
from penstock_operator.decide.scaling.report.alternatives import alternatives
from penstock_operator.decide.scaling.report.conditions import rfc3339
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import NO_GATEWAY, GatewayView, PoolSignals

MAX_MESSAGE, MAX_ASKED, MAX_ALTERNATIVES = 1024, 8, 8
"""The schema's own bounds."""
TERM_BOUNDS: dict[str, str] = {
    ReplicasReason.STABILIZING: "Stabilization",
    ReplicasReason.RATE_LIMITED: "RateLimit",
    ReplicasReason.SIGNALS_ABSENT: "Signals",
}
MAX_FIGURE = 1e12
"""Largest reported figure: larger ones are meaningless and exceed the schema."""


class ReportedDecision(NamedTuple):
    """A decision and its effect."""

    effective: EffectiveSpec
    decision: Decision
    acted: str
    accelerators: int
    """Devices of one replica."""
    shortage: str = ""
    """GpuBudget | Cluster if fewer replicas were granted than requested; else empty."""


def bound_by(reported: ReportedDecision) -> str | None:
    """Return what bounds the count below the demand of the law's terms; None if nothing does."""
    if reported.shortage:
        return reported.shortage
    term = reported.decision.replicas_term
    if term == ReplicasReason.MAX_REPLICAS:
        fields = {bound.field for bound in reported.effective.bounded}
        return "Policy" if "spec.scaling.maxReplicas" in fields else "MaxReplicas"
    if reported.effective.scaling_mode is ScalingMode.HOLD and reported.acted == "Held":
        return "Mode"
    return TERM_BOUNDS.get(term)


def last_decision(
    before: LastDecision | None, reported: ReportedDecision, now: float
) -> LastDecision:
    """Return the decision for the status; an unchanged decision keeps its time and message."""
    decision, algorithm = reported.decision, reported.effective.algorithm.value
    reported_values = (decision.cap, decision.replicas, reported.acted, algorithm)
    if before is not None and reported_values == (
        before.cap,
        before.replicas,
        before.acted,
        before.algorithm,
    ):
        return before
    return LastDecision(
        time=rfc3339(now),
        algorithm=algorithm,
        cap=decision.cap,
        replicas=decision.replicas,
        cap_term=decision.cap_term,
        replicas_term=decision.replicas_term,
        acted=reported.acted,
        bound_by=bound_by(reported),
        hold_until=None if decision.hold_until is None else rfc3339(decision.hold_until),
        asked=_asked(decision) or None,
        alternatives=_alternatives(reported) or None,
        message=decision.message[:MAX_MESSAGE],
    )


def scaling_status(
    reported: ReportedDecision,
    signals: PoolSignals,
    on_time: float | None,
    gateway: GatewayView = NO_GATEWAY,
    before: ScalingStatus | None = None,
) -> ScalingStatus:
    """Return the law's observations as decimal strings, without absent ones.

    `on_time` is the share of requests. The last start of `before` stays when the gateway that saw it is gone.
    """
    decision = reported.decision
    observations = decision.observations
    return ScalingStatus(
        source=signals.source.value,
        prometheus_url=signals.url or None,
        demand_source=observations.demand_source,
        duty_source=None if observations.duty_source is None else observations.duty_source.value,
        signal_age_seconds=decimal(observations.signal_age_seconds),
        gpu_utilization_percent=decimal(observations.duty, 100.0),
        waiting=decimal(observations.waiting),
        held_requests=gateway.held_requests or None,
        last_start=_last_start(gateway.last_start) or (before.last_start if before else None),
        rows_per_second=decimal(observations.rows_per_second),
        forecast_rows_per_second=decimal(observations.forecast_rows_per_second),
        batch_p99_milliseconds=decimal(observations.batch_p99_seconds, 1000.0),
        batch_time_target_milliseconds=decimal(observations.batch_target_seconds, 1000.0),
        curve=None if observations.curve is None else _curve(observations.curve),
        batch_work=batch_work_status(decision.batch_work),
        planned_cap=observations.planned_cap,
        rows_per_second_per_replica=decimal(observations.capacity_per_replica),
        effective_utilization_percent=decimal(observations.utilization, 100.0),
        utilization_target_percent=decimal(observations.utilization_target, 100.0),
        imbalance=decimal(observations.imbalance, digits=2),
        predicted_p99_milliseconds=decimal(observations.predicted_p99_seconds, 1000.0),
        on_time_percent=decimal(on_time, 100.0),
        startup_p90_seconds=decimal(observations.startup_seconds),
        cap_term=decision.cap_term,
        replicas_term=decision.replicas_term,
        bound_by=bound_by(reported),
        hold_until=None if decision.hold_until is None else rfc3339(decision.hold_until),
    )


def _last_start(seconds: Mapping[StartPart, float]) -> StartStatus | None:
    figures = {part: f"{min(max(taken, 0.0), MAX_FIGURE):.2f}" for part, taken in seconds.items()}
    if not figures:
        return None
    return StartStatus(
        decision_seconds=figures[StartPart.DECISION],
        scheduling_seconds=figures[StartPart.SCHEDULING],
        container_seconds=figures[StartPart.CONTAINER],
        model_seconds=figures[StartPart.MODEL],
        endpoint_seconds=figures[StartPart.ENDPOINT],
        first_byte_seconds=figures[StartPart.FIRST_BYTE],
    )


def decimal(value: float | None, scale: float = 1.0, digits: int = 1) -> str | None:
    """Return a decimal string; None stays None."""
    if value is None:
        return None
    return f"{min(max(value * scale, -MAX_FIGURE), MAX_FIGURE):.{digits}f}"


def _figure(value: float, scale: float = 1.0, digits: int = 1) -> str:
    return decimal(value, scale, digits) or "0"


def batch_work_status(plan: BatchWorkPlan | None) -> BatchWorkStatus | None:
    """Return the plan of batch work for the status; None without any."""
    if plan is None:
        return None
    return BatchWorkStatus(
        lines_left=plan.lines_left,
        lines_per_second=_figure(plan.rate, digits=2),
        replicas=_figure(plan.replicas, digits=2),
        added_replicas=plan.added,
    )


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
        TermCount(term=demand.term, replicas=_figure(demand.replicas, digits=2))
        for demand in decision.demands[:MAX_ASKED]
    )


def _alternatives(reported: ReportedDecision) -> tuple[AlternativeStatus, ...]:
    neighbors = alternatives(reported.decision, reported.effective.law)[:MAX_ALTERNATIVES]
    return tuple(
        AlternativeStatus(
            replicas=alternative.replicas,
            cap=alternative.cap,
            accelerators=alternative.replicas * reported.accelerators,
            utilization_percent=_figure(alternative.utilization, 100.0),
            predicted_p99_milliseconds=decimal(alternative.p99_seconds, 1000.0),
            verdict=alternative.verdict.value,
        )
        for alternative in neighbors
    )
