"""From one pool's proposal to its claim, and from a grant back to what its count may be. Pure."""

from collections.abc import Sequence

from penstock_operator.decide.budgets.ledger import Claim, Grant
from penstock_operator.decide.children.environment import accelerator
from penstock_operator.decide.children.metadata import Manifest
from penstock_operator.decide.devices import devices, held_devices
from penstock_operator.decide.scaling.decision import Allowance, Proposal
from penstock_operator.decide.scaling.modes import live_replicas
from penstock_operator.observed import PodObject, PolicyObject

UNPLACED_SECONDS = 30.0
"""A scheduler that has room binds a pod in seconds; one that terminates makes room later."""
DRAIN_SECONDS = 120


def claim(
    proposal: Proposal,
    template: Manifest | None,
    policies: Sequence[PolicyObject],
    now: float,
) -> Claim | None:
    """Return what the pool asks for; None on the CPU, or where no policy budgets its resource.

    `template` is the pinned one: what new pods will ask for.
    """
    view, wished = proposal.view, accelerator(proposal.view.pool)
    resource = wished.resource_name
    named = tuple(one.name for one in policies if _budgets(one, resource))
    each = devices(template).get(resource, 0) if template else wished.count
    if not named or each == 0:
        return None
    staying, leaving = held_devices(view, template)
    drain = view.pool.spec.drain
    return Claim(
        uid=view.pool.uid,
        resource=resource,
        per_replica=each,
        weight=proposal.effective.weight,
        floor=min(proposal.effective.law.min_replicas, proposal.wanted),
        wanted=proposal.wanted,
        need=proposal.need,
        asked=live_replicas(view) or 0,
        staying=staying[resource],
        leaving=leaving[resource],
        unplaced=sum(_waits(pod, resource, now) for pod in view.pods),
        policies=named,
        drain_seconds=drain.deadline_seconds or DRAIN_SECONDS if drain else DRAIN_SECONDS,
    )


def _budgets(policy: PolicyObject, resource: str) -> bool:
    return any(one.resource_name == resource for one in policy.spec.gpu_budgets or ())


def _waits(pod: PodObject, resource: str, now: float) -> bool:
    """Return whether the scheduler has found no room on any node for so much of the resource."""
    since, problem = pod.unschedulable_since, pod.problem
    if since is None or problem is None or pod.terminating or now - since < UNPLACED_SECONDS:
        return False
    return f"Insufficient {resource}" in problem.message


def allowance(grant: Grant | None) -> Allowance | None:
    """Return what a grant lets a pool ask for, in words; None where nothing binds."""
    if grant is None:
        return None
    if not grant.divided:
        why = "not every pool under the budget was looked at yet"
    elif grant.bound_by == "Cluster":
        why = f"the cluster places {grant.limit} devices for the pools of policy {grant.policy}"
    else:
        why = f"policy {grant.policy} has {grant.limit} devices for all its pools"
    return Allowance(grant.replicas, grant.bound_by, why)
