"""Decision log: one structured line per decision, with its observations, its terms and its results.

A line is written when the law decides, and when the published count, cap or generation changes for another reason: an
edit, a policy or a budget. It contains no data of a Secret, a request or a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock_operator.decide.plan import PoolPlan
from penstock_operator.observed import PoolView

Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class DecisionKey:
    """Identity of a decision, by which a new one is recognized."""

    decided: str | None
    """Time of the law's last decision, as in the status."""
    replicas: int
    cap: int | None
    generation: int | None


def key(plan: PoolPlan) -> DecisionKey:
    """Return the key of a plan's decision."""
    decision, limits = plan.status.last_decision, plan.limits
    return DecisionKey(
        decided=decision.time if decision is not None else None,
        replicas=plan.figures.granted,
        cap=limits.max_batch_size if limits is not None else None,
        generation=limits.generation if limits is not None else None,
    )


def record(plan: PoolPlan, view: PoolView) -> dict[str, object]:
    """Return the fields of a decision's log line; unknown ones are left out."""
    decision, figures, now = plan.status.last_decision, plan.figures, key(plan)
    seen = {
        "pods": len(view.pods),
        "readyPods": sum(pod.ready for pod in view.pods),
        "signals": view.signals.source.value,
        "problem": view.signals.problem or None,
        "signalAgeSeconds": figures.signal_age_seconds,
        "demandRowsPerSecond": figures.demand,
        "forecastRowsPerSecond": figures.forecast,
        "effectiveUtilization": figures.utilization,
    }
    done = {"replicas": now.replicas, "cap": now.cap, "generation": now.generation}
    line: dict[str, object] = {"audit": "decision", "seen": _known(seen), "done": _known(done)}
    if decision is not None:
        demands = {demand.term: demand.replicas for demand in decision.asked or ()}
        line["algorithm"] = decision.algorithm
        line["wanted"] = {"replicas": figures.desired, "cap": decision.cap}
        line["term"] = _known(
            {
                "replicas": decision.replicas_term,
                "cap": decision.cap_term,
                "asked": demands or None,
                "boundBy": decision.bound_by,
                "holdUntil": decision.hold_until,
            }
        )
        line["done"] = {"law": decision.acted, **_known(done)}
    return line


def _known(given: Fields) -> dict[str, object]:
    return {
        key: round(value, 6) if isinstance(value, float) else value
        for key, value in given.items()
        if value is not None
    }
