"""Alternatives to a decision: the predicted utilization and latency of neighboring counts and caps. Pure.

Computed only for a new decision, from the outlook that the law used: one replica less and one more, half the cap and twice
the cap. Latency comes from the law's own model; it is not predicted where demand exceeds capacity.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from penstock_operator.decide.scaling.capacity_at_objective.latency import pooled
from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import percent
from penstock_operator.decide.scaling.law import Decision, DemandOutlook
from penstock_operator.decide.spec.law_settings import LawSettings


class Verdict(StrEnum):
    """Predicted outcome of an alternative."""

    MEETS_OBJECTIVE = "MeetsObjective"
    MISSES_OBJECTIVE = "MissesObjective"
    SATURATED = "Saturated"
    NOT_PREDICTED = "NotPredicted"
    """There is no objective, or the law does not predict latency."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another cap and count."""

    replicas: int
    cap: int
    utilization: float
    """Demand over capacity; saturated from 1 on."""
    p99_seconds: float | None
    """Predicted latency of a request to a pod of mean load, in seconds; None if saturated or not predicted."""
    verdict: Verdict


def alternatives(decision: Decision, settings: LawSettings) -> tuple[Alternative, ...]:
    """Return the decision and its neighbors, fewest replicas first; nothing without an outlook."""
    outlook = decision.outlook
    if outlook is None:
        return ()
    return tuple(_judged(*choice, outlook, settings) for choice in _choices(decision, settings))


def _choices(decision: Decision, settings: LawSettings) -> Iterator[tuple[int, int]]:
    n, planned = max(decision.replicas, 1), decision.observations.planned_cap
    cap = max(planned if planned is not None else decision.cap, 1)
    counts = {max(n - 1, 1), n, n + 1}
    caps = {cap // 2, 2 * cap} & set(range(max(settings.size_min, 1), settings.size_max + 1))
    yield from sorted({(count, cap) for count in counts} | {(n, other) for other in caps})


def _judged(replicas: int, cap: int, outlook: DemandOutlook, settings: LawSettings) -> Alternative:
    seconds = outlook.curve.seconds(cap)
    rho = outlook.demand * seconds / (replicas * cap)
    if outlook.traffic is None or seconds <= 0 or rho >= 1:
        verdict = Verdict.SATURATED if rho >= 1 else Verdict.NOT_PREDICTED
        return Alternative(replicas, cap, rho, None, verdict)
    spare = (settings.objective_milliseconds or 0) / 1000 - outlook.overhead_seconds
    limit = max(spare, 0.0) / (seconds * outlook.tail_ratio)
    traffic, intercept = outlook.traffic, min(max(outlook.curve.a / seconds, 0.0), 1.0)
    ends = pooled.p99(traffic, intercept, cap, replicas, rho)
    late = pooled.late_shares(traffic, intercept, cap, limit)(replicas)[percent(rho)]
    p99 = outlook.overhead_seconds + seconds * outlook.p99_ratio * ends if isfinite(ends) else None
    verdict = Verdict.MEETS_OBJECTIVE
    if settings.objective_milliseconds is None:
        verdict = Verdict.NOT_PREDICTED
    elif spare <= 0 or late > settings.late.request:
        verdict = Verdict.MISSES_OBJECTIVE
    return Alternative(replicas, cap, rho, p99, verdict)
