"""From one pool's proposal to its claims, and from a grant back to what its count may be. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock_operator.decide.budgets.devices import devices, held_devices
from penstock_operator.decide.ledger import QuotaGrant, QuotaRequest
from penstock_operator.decide.manifests.diff import digest
from penstock_operator.decide.manifests.environment import accelerator
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.scaling.decision import Proposal, Quota
from penstock_operator.decide.scaling.modes import live_replicas
from penstock_operator.observed import PodObject, PolicyObject, PoolView

UNPLACED_SECONDS = 30.0
"""A scheduler that has room binds a pod in seconds; one that terminates makes room later."""
DRAIN_SECONDS = 120
PLACING = ("nodeSelector", "affinity", "tolerations")
"""What a pod template says of the nodes that its pods may go to."""


def claims(
    proposal: Proposal,
    template: Manifest | None,
    policies: Sequence[PolicyObject],
    now: float,
) -> tuple[QuotaRequest, ...]:
    """Return what the pool asks for, and what pods of its earlier templates still hold of other resources.

    Nothing on the CPU, or where no policy budgets its resources. `template` is the pinned one: new pods will ask
    for what it says, whatever the spec says meanwhile.
    """
    budgeted = {one.resource_name for policy in policies for one in policy.spec.gpu_budgets or ()}
    if not budgeted:
        return ()
    asked = _asked(proposal.view, template, budgeted)
    staying, leaving = held_devices(proposal.view, template)
    named = {one for one in budgeted if staying[one] or leaving[one]}
    if asked is not None:
        named.add(asked[0])
    plain = {one: _holding(proposal, one, policies, template) for one in sorted(named)}
    found = {
        one: replace(held, staying=staying[one], leaving=leaving[one])
        for one, held in plain.items()
    }
    if asked is not None:
        resource, each = asked
        found[resource] = _wished(found[resource], each, proposal, now)
    return tuple(found.values())


def _holding(
    proposal: Proposal, resource: str, policies: Sequence[PolicyObject], template: Manifest | None
) -> QuotaRequest:
    """Return a claim of a pool that asks for nothing."""
    pool = proposal.view.pool
    drain = pool.spec.drain
    return QuotaRequest(
        uid=f"{pool.uid} {resource}",
        resource=resource,
        per_replica=1,
        weight=proposal.effective.weight,
        floor=0,
        requested=0,
        need=0.0,
        deployed=0,
        policies=tuple(one.name for one in policies if _budgets(one, resource)),
        drain_seconds=drain.deadline_seconds or DRAIN_SECONDS if drain else DRAIN_SECONDS,
        placement=_placement(template),
        remains_of=pool.uid,
    )


def _asked(
    view: PoolView, template: Manifest | None, budgeted: Collection[str]
) -> tuple[str, int] | None:
    """Return the budgeted resource that new pods compute on and how many devices each; None where they ask for none."""
    wished = accelerator(view.pool)
    given = devices(template) if template else {wished.resource_name: wished.count}
    asked = ((one, count) for one, count in given.items() if count and one in budgeted)
    return next(asked, None)


def _wished(held: QuotaRequest, each: int, proposal: Proposal, now: float) -> QuotaRequest:
    """Return what is `held` as part of what the pool asks for."""
    view, wanted = proposal.view, proposal.wanted
    return replace(
        held,
        uid=view.pool.uid,
        remains_of="",
        per_replica=each,
        floor=min(proposal.effective.law.min_replicas, wanted),
        requested=wanted,
        need=proposal.need,
        deployed=live_replicas(view) or 0,
        unplaced=sum(_waits(pod, held.resource, now) for pod in view.pods),
    )


def _placement(template: Manifest | None) -> str:
    """Return a name of the nodes that pods of `template` choose; empty where they choose none."""
    spec = template["spec"] if template else {}
    given = {key: spec[key] for key in PLACING if spec.get(key)}
    return digest(given) if given else ""


def _budgets(policy: PolicyObject, resource: str) -> bool:
    return any(one.resource_name == resource for one in policy.spec.gpu_budgets or ())


def _waits(pod: PodObject, resource: str, now: float) -> bool:
    """Return whether the scheduler has found no room on any node for so much of the resource."""
    since, problem = pod.unschedulable_since, pod.problem
    if since is None or problem is None or pod.terminating or now - since < UNPLACED_SECONDS:
        return False
    return f"Insufficient {resource}" in problem.message


def allowance(grant: QuotaGrant | None) -> Quota | None:
    """Return what a grant lets a pool ask for, in words; None where nothing binds."""
    if grant is None:
        return None
    if not grant.divided:
        why = "not every pool under the budget was looked at yet"
    elif grant.bound_by == "Cluster":
        why = f"the cluster places {grant.limit} devices for the pools of policy {grant.policy} that may go to the same nodes"
    else:
        why = f"policy {grant.policy} has {grant.limit} devices for all its pools"
    return Quota(grant.replicas, grant.bound_by, why)
