"""The PolicyApplied condition: the effect of the selecting policies on the pool's spec."""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.spec.policy_defaults import Tie

POLICY_APPLIED = "PolicyApplied"
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def policy_applied(outcome: PoolOutcome) -> Condition:
    """Return the condition: rejections take precedence over ties, ties over what applies."""
    spec = outcome.effective
    if problem := unreadable_problem(outcome):
        return condition(POLICY_APPLIED, UNKNOWN, "PoliciesNotReadable", problem)
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
        message = "; ".join(["no policy selects this pool", *spec.notes])
        return condition(POLICY_APPLIED, TRUE, "NoPolicy", message)
    return condition(POLICY_APPLIED, TRUE, "Applied", _applied(outcome))


def unreadable_problem(outcome: PoolOutcome) -> str:
    """Return which policies that select the pool, or may select it, cannot be read; empty if there is none."""
    if not outcome.policies_readable:
        return (
            "the operator had no permission to read InferencePolicies at its start, so none applies: grant get, list and"
            " watch, and restart it"
        )
    selected = {policy.name for policy in outcome.effective.policies}
    problems = [
        f"policy {policy.name}: {policy.problem}"
        for policy in outcome.unreadable_policies
        if policy.name in selected or not policy.applies
    ]
    remedy = "upgrade the operator, or remove what it does not know"
    return "; ".join([*problems, remedy]) if problems else ""


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
