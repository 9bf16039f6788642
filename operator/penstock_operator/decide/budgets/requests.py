"""Quota requests of one pool from its law's proposal, and the `Quota` that a grant gives back to the law. Pure."""

from collections.abc import Collection, Sequence

from penstock_operator.decide.budgets.devices import devices, devices_in_use
from penstock_operator.decide.manifests.diff import digest
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.pod_template.environment import accelerator
from penstock_operator.decide.manifests.rollout import surge_stage
from penstock_operator.decide.quota_ledger import QuotaGrant, QuotaRequest
from penstock_operator.decide.scaling.decision import Proposal, Quota
from penstock_operator.decide.scaling.modes import live_replicas
from penstock_operator.observed import PodObject, PolicyObject, PoolView

UNPLACED_SECONDS = 30.0
"""A scheduler with room binds a pod in seconds; a terminating pod makes room later."""
PLACING = ("nodeSelector", "affinity", "tolerations")
"""Fields of a pod template that select nodes."""


def quota_requests(
    proposal: Proposal,
    template: Manifest | None,
    policies: Sequence[PolicyObject],
    now: float,
) -> tuple[QuotaRequest, ...]:
    """Return the pool's request for new replicas, and one for each other resource that its earlier pods still use.

    Empty on the CPU, and where no policy budgets the pool's resources. `template` is the pinned one: new pods
    request what it names, even while the spec differs.
    """
    budgeted = {
        budget.resource_name for policy in policies for budget in policy.spec.gpu_budgets or ()
    }
    if not budgeted:
        return ()
    new = _new_devices(proposal.view, template, budgeted)
    staying, leaving = devices_in_use(proposal.view, template)
    resources = {resource for resource in budgeted if staying[resource] or leaving[resource]}
    if new is not None:
        resources.add(new[0])
    requests: dict[str, QuotaRequest] = {}
    for resource in sorted(resources):
        remains = _remains(proposal, resource, policies, template)
        requests[resource] = remains._replace(staying=staying[resource], leaving=leaving[resource])
    if new is not None:
        resource, per_replica = new
        requests[resource] = _for_replicas(requests[resource], per_replica, proposal, template, now)
    return tuple(requests.values())


def _remains(
    proposal: Proposal, resource: str, policies: Sequence[PolicyObject], template: Manifest | None
) -> QuotaRequest:
    """Return a request without new replicas, for devices that pods of earlier templates still use."""
    pool = proposal.view.pool
    return QuotaRequest(
        uid=f"{pool.uid} {resource}",
        resource=resource,
        per_replica=1,
        weight=proposal.effective.weight,
        floor=0,
        requested=0,
        need=0.0,
        deployed=0,
        policies=tuple(policy.name for policy in policies if _budgets(policy, resource)),
        placement=_placement(template),
        remains_of=pool.uid,
    )


def _new_devices(
    view: PoolView, template: Manifest | None, budgeted: Collection[str]
) -> tuple[str, int] | None:
    """Return the budgeted resource that new pods compute on and the devices per pod; None without one."""
    declared = accelerator(view.pool)
    counts = devices(template) if template else {declared.resource_name: declared.count}
    matches = ((name, count) for name, count in counts.items() if count and name in budgeted)
    return next(matches, None)


def _for_replicas(
    remains: QuotaRequest,
    per_replica: int,
    proposal: Proposal,
    template: Manifest | None,
    now: float,
) -> QuotaRequest:
    """Return the request for the pool's replicas, with the devices in use that `remains` counts."""
    view, requested = proposal.view, proposal.requested
    return remains._replace(
        uid=view.pool.uid,
        remains_of="",
        per_replica=per_replica,
        floor=min(proposal.effective.law.min_replicas, proposal.lasting),
        requested=requested,
        need=proposal.need,
        deployed=live_replicas(view) or 0,
        pods=sum(pod.scheduled and not pod.terminating for pod in view.pods),
        surge=surge_stage(view, template),
        unplaced=sum(_waits_for_device(pod, remains.resource, now) for pod in view.pods),
    )


def _placement(template: Manifest | None) -> str:
    """Return a digest of the node selection of `template`; empty without one."""
    spec = template["spec"] if template else {}
    selection = {key: spec[key] for key in PLACING if spec.get(key)}
    return digest(selection) if selection else ""


def _budgets(policy: PolicyObject, resource: str) -> bool:
    return any(budget.resource_name == resource for budget in policy.spec.gpu_budgets or ())


def _waits_for_device(pod: PodObject, resource: str, now: float) -> bool:
    """Return whether the scheduler has reported for some time that no node has enough of the resource."""
    since, problem = pod.unschedulable_since, pod.problem
    if since is None or problem is None or pod.terminating or now - since < UNPLACED_SECONDS:
        return False
    return f"Insufficient {resource}" in problem.message


def quota(grant: QuotaGrant | None) -> Quota | None:
    """Return the replicas that a grant allows and why; None without a grant."""
    if grant is None:
        return None
    if not grant.divided:
        why = "not every pool under the budget has been observed yet"
    elif grant.bound_by == "Cluster":
        why = f"the cluster can schedule {grant.limit} devices for the pools of policy {grant.policy} that select the same nodes"
    else:
        why = f"policy {grant.policy} allows {grant.limit} devices for all its pools"
    return Quota(grant.replicas, grant.bound_by, why)
