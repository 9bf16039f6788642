"""A policy's candidate, tried in shadow: the pool's own law steps a second time, under other settings. Pure.

Its count is its own: holds and rates of change apply to what it would have asked for, while signals are those of the
pods that are really there. Budgets bind it not: it says what it would want. Nothing of it is ever acted on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock_api.types.policy import PolicyBounds
from penstock_api.types.status import CandidateDecision
from penstock_operator.decide.scaling.decision import ScalingOutcome
from penstock_operator.observed import PolicyObject

HOUR = 3600.0
LONGEST_STEP_SECONDS = 90.0
"""A gap longer than three ticks of an idle pool is a time that nobody saw."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """What is remembered of a candidate between ticks."""

    policy: str
    generation: int
    scaling: object
    """Its law's own state."""
    time: float
    replicas: int
    actual: int
    hours: float = 0.0
    actual_hours: float = 0.0


def carrier(policies: Sequence[PolicyObject]) -> PolicyObject | None:
    """Return the policy whose candidate is tried on a pool: of those that select it the first by priority."""
    return next((one for one in policies if one.spec.candidate is not None), None)


def tried(policy: PolicyObject) -> PolicyObject:
    """Return the policy as it would be with its candidate in force."""
    wish = policy.spec.candidate
    if wish is None:
        return policy
    changes: dict[str, object] = {}
    if wish.defaults is not None:
        changes["defaults"] = wish.defaults
    if wish.bounds is not None:
        held = policy.spec.bounds or PolicyBounds()
        changes["bounds"] = held.model_copy(
            update={"replicas": wish.bounds.replicas, "batch_size": wish.bounds.batch_size}
        )
    return replace(policy, spec=policy.spec.model_copy(update=changes))


def in_place(policies: Sequence[PolicyObject], policy: PolicyObject) -> tuple[PolicyObject, ...]:
    """Return all policies with the candidate of `policy` in force."""
    return tuple(tried(one) if one.uid == policy.uid else one for one in policies)


def continued(before: Shadow | None, policy: PolicyObject) -> Shadow | None:
    """Return what is remembered of this very candidate; an edited policy begins anew."""
    if before is None or (before.policy, before.generation) != (policy.name, policy.generation):
        return None
    return before


def recorded(
    before: Shadow | None,
    policy: PolicyObject,
    stepped: tuple[object, ScalingOutcome],
    actual: int,
    now: float,
) -> tuple[Shadow, CandidateDecision]:
    """Return what to remember of one step of the candidate's law, and what to say beside the `actual` count."""
    scaling, outcome = stepped
    hours, actual_hours = (0.0, 0.0) if before is None else (before.hours, before.actual_hours)
    if before is not None and 0 <= now - before.time <= LONGEST_STEP_SECONDS:
        hours += before.replicas * (now - before.time) / HOUR
        actual_hours += before.actual * (now - before.time) / HOUR
    after = Shadow(
        policy.name,
        policy.generation,
        scaling,
        now,
        outcome.replicas,
        actual,
        hours,
        actual_hours,
    )
    said = CandidateDecision(
        policy=policy.name,
        generation=policy.generation,
        cap=outcome.cap,
        replicas=outcome.replicas,
        actual_replicas=actual,
        replicas_term=str(outcome.decision.replicas_term),
        replica_hours=f"{hours:.2f}",
        actual_replica_hours=f"{actual_hours:.2f}",
    )
    return after, said
