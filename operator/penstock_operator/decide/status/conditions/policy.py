"""PolicyApplied: what the administrators' policies made of the spec."""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.spec.defaults import Tie

POLICY_APPLIED = "PolicyApplied"
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def policy_applied(found: PoolOutcome) -> Condition:
    """Return the condition: refusals before ties before what simply applies."""
    if not found.policies_readable:
        message = "the operator may not read InferencePolicies, so none applies: grant it get, list, watch"
        return condition(POLICY_APPLIED, UNKNOWN, "PoliciesNotReadable", message)
    if found.pinned.refusals:
        message = "nothing is rolled, running pods stay: " + "; ".join(found.pinned.refusals)
        return condition(POLICY_APPLIED, FALSE, "TemplateNotAllowed", message)
    if found.effective.felt_ties:
        message = "; ".join(tie_sentence(tie) for tie in found.effective.felt_ties)
        return condition(POLICY_APPLIED, FALSE, "Conflicted", message)
    if found.set_aside:
        message = f"{found.set_aside}; the settings before stay in force: try others, or set rollback.mode to Never"
        return condition(POLICY_APPLIED, FALSE, "SetAside", message)
    if not found.effective.policies:
        return condition(POLICY_APPLIED, TRUE, "NoPolicy", "no policy selects this pool")
    return condition(POLICY_APPLIED, TRUE, "Applied", _applied(found))


def tie_sentence(tie: Tie) -> str:
    """Return which policies disagree on what, and what follows."""
    return (
        f"policies {', '.join(tie.policies)} of priority {tie.priority} default {tie.field} to different"
        " values, so neither applies and the last value stays: give them different priorities"
    )


def _applied(found: PoolOutcome) -> str:
    named = ", ".join(one.name for one in found.effective.policies)
    lowered = [
        f"{one.field} {one.asked} is bounded to {one.granted} by {one.policy}"
        for one in found.effective.bounded
    ]
    trial = ["the settings are on trial: attainment is compared with before"]
    more = [*lowered, *found.effective.notes, *(trial if found.on_trial else [])]
    return "; ".join([f"policies in force: {named}", *more])
