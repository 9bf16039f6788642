"""BudgetLimited: does the pool get the devices it wants?"""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.ledger import BUDGET_LIMITED
from penstock_operator.decide.pool_outcome import PoolOutcome

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
REMEDIES = {
    "Cluster": "add a node with them, or give this pool more weight or minReplicas",
    "GpuBudget": "raise the budget's count, or give this pool more weight or minReplicas",
}


def budget_limited(found: PoolOutcome) -> Condition:
    """Return the condition: how many replicas were wanted, how many granted, and by whom."""
    claim, grant = found.claim, found.grant
    if not found.policies_readable:
        message = "the operator may not read InferencePolicies, so no budget applies"
        return condition(BUDGET_LIMITED, UNKNOWN, "PoliciesNotReadable", message)
    if claim is None or grant is None:
        message = "no policy's GPU budget binds this pool"
        return condition(BUDGET_LIMITED, FALSE, "NoBudget", message)
    each, wanted, granted = claim.per_replica, claim.requested, grant.entitled
    asked = f"{wanted} replicas ({wanted * each} {claim.resource}) wanted"
    if granted >= wanted and grant.replicas >= wanted:
        return condition(BUDGET_LIMITED, FALSE, "WithinBudget", f"{asked} and granted")
    if granted >= wanted:
        message = f"{asked} and granted, {grant.replicas} may run now: other pools still drain"
        return condition(BUDGET_LIMITED, TRUE, "WaitingForDrain", message)
    if not grant.divided:
        message = f"{asked}, {granted} held: not every pool under the budget was looked at yet"
        return condition(BUDGET_LIMITED, TRUE, "NotDividedYet", message)
    who = (
        f"the cluster places {grant.limit} for the pools of policy {grant.policy} that may go to the same nodes"
        if grant.bound_by == "Cluster"
        else f"policy {grant.policy} has {grant.limit} for all its pools"
    )
    message = (
        f"{asked}, {granted} ({granted * each}) granted: {who}, their minReplicas first and the rest by"
        f" weight: {REMEDIES[grant.bound_by]}"
    )
    reason = "ClusterShort" if grant.bound_by == "Cluster" else "BudgetShort"
    return condition(BUDGET_LIMITED, TRUE, reason, message)
