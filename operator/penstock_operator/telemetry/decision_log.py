"""The audit of decisions: one structured log line for each, with what was seen, wanted, which term bound, what was done.

A line is due when the law decides anew, and when the count, the cap or the generation that is published moves for
another reason: an edit, a policy, a budget. Nothing of it comes from a Secret, a request or a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock_operator.decide.plan import PoolPlan
from penstock_operator.observed import PoolView

Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class DecisionKey:
    """What one decision is told from the next by."""

    decided: str | None
    """When the law last decided, as the status says it."""
    replicas: int
    cap: int | None
    generation: int | None


def key(plan: PoolPlan) -> DecisionKey:
    """Return the mark of a plan's decision."""
    decision, limits = plan.status.last_decision, plan.limits
    return DecisionKey(
        decided=decision.time if decision is not None else None,
        replicas=plan.figures.granted,
        cap=limits.max_batch_size if limits is not None else None,
        generation=limits.generation if limits is not None else None,
    )


def record(plan: PoolPlan, view: PoolView) -> dict[str, object]:
    """Return the fields of a decision's log line; what is not known is left out."""
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
    told: dict[str, object] = {"audit": "decision", "seen": _known(seen), "done": _known(done)}
    if decision is not None:
        asked = {one.term: one.replicas for one in decision.asked or ()}
        told["algorithm"] = decision.algorithm
        told["wanted"] = {"replicas": figures.desired, "cap": decision.cap}
        told["term"] = _known(
            {
                "replicas": decision.replicas_term,
                "cap": decision.cap_term,
                "asked": asked or None,
                "boundBy": decision.bound_by,
                "holdUntil": decision.hold_until,
            }
        )
        told["done"] = {"law": decision.acted, **_known(done)}
    return told


def _known(given: Fields) -> dict[str, object]:
    return {
        key: round(value, 6) if isinstance(value, float) else value
        for key, value in given.items()
        if value is not None
    }
