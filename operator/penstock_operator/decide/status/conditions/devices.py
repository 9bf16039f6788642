"""The conditions on devices: BudgetLimited, the grant of a GPU budget, and DevicesUsed, devices without work."""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.manifests.pod_template.environment import accelerator
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.quota_ledger import BUDGET_LIMITED
from penstock_operator.decide.status.conditions.policy_applied import unreadable_problem

DEVICES_USED = "DevicesUsed"
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
REMEDIES = {
    "Cluster": "add a node with these devices, or raise this pool's weight or minReplicas",
    "GpuBudget": "raise the budget's count, or this pool's weight or minReplicas",
}


def budget_limited(outcome: PoolOutcome) -> Condition:
    """Return the condition: the replicas requested and granted, and the limit that binds."""
    request, grant = outcome.quota_request, outcome.grant
    known = all(policy.applies for policy in outcome.unreadable_policies)
    if not outcome.policies_readable or not known:
        message = unreadable_problem(outcome)
        return condition(BUDGET_LIMITED, UNKNOWN, "PoliciesNotReadable", message)
    if request is None or grant is None:
        message = "no policy's GPU budget applies to this pool"
        return condition(BUDGET_LIMITED, FALSE, "NoBudget", message)
    per_replica, count, granted = request.per_replica, request.requested, grant.entitled
    requested = f"{count} replicas ({count * per_replica} {request.resource}) requested"
    if granted >= count and grant.replicas >= count:
        return condition(BUDGET_LIMITED, FALSE, "WithinBudget", f"{requested} and granted")
    if granted >= count:
        message = f"{requested} and granted, {grant.replicas} can run now: pods of other pools are draining"
        return condition(BUDGET_LIMITED, TRUE, "WaitingForDrain", message)
    if not grant.divided:
        message = (
            f"{requested}, {granted} kept: not every pool under the budget has been observed yet"
        )
        return condition(BUDGET_LIMITED, TRUE, "NotDividedYet", message)
    limit = (
        f"the cluster can schedule {grant.limit} for the pools of policy {grant.policy} that select the same nodes"
        if grant.bound_by == "Cluster"
        else f"policy {grant.policy} allows {grant.limit} for all its pools"
    )
    message = (
        f"{requested}, {granted} ({granted * per_replica}) granted: {limit}, divided by minReplicas first,"
        f" then by weight: {REMEDIES[grant.bound_by]}"
    )
    reason = "ClusterShort" if grant.bound_by == "Cluster" else "BudgetShort"
    return condition(BUDGET_LIMITED, TRUE, reason, message)


def devices_used(outcome: PoolOutcome) -> tuple[Condition, ...]:
    """Return the condition where a replica has several devices and one rank, which computes on the first."""
    device, parallelism = accelerator(outcome.view.pool), outcome.view.pool.spec.parallelism
    if device.count <= (1 if parallelism is None else parallelism.devices):
        return ()
    message = (
        f"each replica has {device.count} {device.resource_name} and computes on one of them:"
        " set spec.accelerator.count to 1 and use more replicas for more devices, or let spec.parallelism use them"
    )
    return (condition(DEVICES_USED, FALSE, "OneDeviceUsed", message),)
