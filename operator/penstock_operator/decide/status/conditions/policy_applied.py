"""The PolicyApplied condition: the effect of the selecting policies on the pool's spec."""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.spec.policy_defaults import Tie

POLICY_APPLIED = "PolicyApplied"
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def policy_applied(outcome: PoolOutcome) -> Condition:
    """Return the condition: rejections take precedence over ties, ties over what applies."""
    spec = outcome.effective
    if not outcome.policies_readable:
        message = "the operator has no permission to read InferencePolicies, so none applies: grant get, list and watch"
        return condition(POLICY_APPLIED, UNKNOWN, "PoliciesNotReadable", message)
    if outcome.pinned.violations:
        message = "no rollout starts, running pods stay: " + "; ".join(outcome.pinned.violations)
        return condition(POLICY_APPLIED, FALSE, "TemplateNotAllowed", message)
    if spec.unresolved_ties:
        message = "; ".join(tie_sentence(tie) for tie in spec.unresolved_ties)
        return condition(POLICY_APPLIED, FALSE, "Conflicted", message)
    if outcome.rolled_back:
        message = f"{outcome.rolled_back}; the previous settings stay in force: try others, or set rollback.mode to Never"
        return condition(POLICY_APPLIED, FALSE, "SetAside", message)
    if not spec.policies:
        return condition(POLICY_APPLIED, TRUE, "NoPolicy", "no policy selects this pool")
    return condition(POLICY_APPLIED, TRUE, "Applied", _applied(outcome))


def tie_sentence(tie: Tie) -> str:
    """Return the policies that conflict, the field, and the consequence."""
    return (
        f"policies {', '.join(tie.policies)} of priority {tie.priority} set different defaults for {tie.field},"
        " so none of them applies and the last value stays: give them different priorities"
    )


def _applied(outcome: PoolOutcome) -> str:
    spec = outcome.effective
    policies = ", ".join(policy.name for policy in spec.policies)
    lowered = [
        f"{bounded.field} {bounded.asked} is limited to {bounded.granted} by policy {bounded.policy}"
        for bounded in spec.bounded
    ]
    trial = ["the settings are on trial: attainment is compared with that before the edit"]
    notes = [*lowered, *spec.notes, *(trial if outcome.on_trial else [])]
    return "; ".join([f"policies in force: {policies}", *notes])
