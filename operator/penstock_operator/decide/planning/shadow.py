"""A policy's candidate in shadow: a second step of the pool's law under the candidate's settings. Pure.

The shadow has its own count: holds and rates of change apply to what the candidate would have deployed, while
signals come from the real pods. Budgets do not apply to it: it reports the count that it would request. No action follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock_api.types.policy import PolicyBounds
from penstock_api.types.status import CandidateDecision
from penstock_operator.decide.scaling.decision import ScalingOutcome
from penstock_operator.observed import PolicyObject

HOUR = 3600.0
MAX_STEP_SECONDS = 90.0
"""Maximum gap that counts as replica hours: three ticks of an idle pool."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """State of a candidate between ticks."""

    policy: str
    """UID of the policy."""
    generation: int
    scaling: object
    """State of its law."""
    time: float
    replicas: int
    actual: int
    hours: float = 0.0
    actual_hours: float = 0.0


def candidate_policy(policies: Sequence[PolicyObject]) -> PolicyObject | None:
    """Return the first policy with a candidate of those that select a pool, in order of priority."""
    return next((policy for policy in policies if policy.spec.candidate is not None), None)


def apply_candidate(
    policies: Sequence[PolicyObject], policy: PolicyObject
) -> tuple[PolicyObject, ...]:
    """Return all policies with the candidate of `policy` in force."""
    applied = _with_candidate(policy)
    return tuple(applied if other.uid == policy.uid else other for other in policies)


def _with_candidate(policy: PolicyObject) -> PolicyObject:
    candidate = policy.spec.candidate
    if candidate is None:
        return policy
    changes: dict[str, object] = {}
    if candidate.defaults is not None:
        changes["defaults"] = candidate.defaults
    if candidate.bounds is not None:
        bounds = policy.spec.bounds or PolicyBounds()
        changes["bounds"] = bounds.model_copy(
            update={
                "replicas": candidate.bounds.replicas,
                "batch_size": candidate.bounds.batch_size,
            }
        )
    return replace(policy, spec=policy.spec.model_copy(update=changes))


def resume(before: Shadow | None, policy: PolicyObject) -> Shadow | None:
    """Return the state of this candidate; None begins again, as after an edit of the policy."""
    if before is None or (before.policy, before.generation) != (policy.uid, policy.generation):
        return None
    return before


def record_step(
    before: Shadow | None,
    policy: PolicyObject,
    stepped: tuple[object, ScalingOutcome],
    actual: int,
    now: float,
) -> tuple[Shadow, CandidateDecision]:
    """Return the state after one step of the candidate's law, and its status compared with the `actual` count."""
    scaling, outcome = stepped
    hours, actual_hours = (0.0, 0.0) if before is None else (before.hours, before.actual_hours)
    if before is not None and 0 <= now - before.time <= MAX_STEP_SECONDS:
        hours += before.replicas * (now - before.time) / HOUR
        actual_hours += before.actual * (now - before.time) / HOUR
    after = Shadow(
        policy.uid,
        policy.generation,
        scaling,
        now,
        outcome.replicas,
        actual,
        hours,
        actual_hours,
    )
    decision = CandidateDecision(
        policy=policy.name,
        generation=policy.generation,
        cap=outcome.cap,
        replicas=outcome.replicas,
        actual_replicas=actual,
        replicas_term=str(outcome.decision.replicas_term),
        replica_hours=f"{hours:.2f}",
        actual_replica_hours=f"{actual_hours:.2f}",
    )
    return after, decision
