"""What planning one pool has found out so far: read by conditions, status and Events."""

from dataclasses import dataclass

from penstock_api.limits import LimitsUpdate
from penstock_api.types.status import BoundedField, CandidateDecision
from penstock_operator.decide.config import PoolPeers
from penstock_operator.decide.ledger import QuotaGrant, QuotaRequest
from penstock_operator.decide.manifests.deployment import ReplicaCount
from penstock_operator.decide.manifests.metadata import child_name
from penstock_operator.decide.manifests.pinned_template import Pinned
from penstock_operator.decide.manifests.rollout import RolloutPlan
from penstock_operator.decide.scaling.decision import ScalingOutcome
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import AS_BUILT, ChildObject, PodObject, PoolView, SchemaSkew

BUDGETED_FIELD = "status.desiredReplicas"
"""What a budget lowers: not a field of the spec, but the count that comes of it."""


@dataclass(frozen=True, slots=True)
class PoolOutcome:
    """One pool in one pass, everything decided but not yet said."""

    view: PoolView
    effective: EffectiveSpec
    outcome: ScalingOutcome
    pinned: Pinned
    count: ReplicaCount
    """What the Deployment is to ask for."""
    conflicts: tuple[ChildObject, ...]
    """Objects that this pool does not control under its children's names."""
    limits: LimitsUpdate | None
    policies_readable: bool
    rollout: RolloutPlan
    """How the pods come to the pinned template."""
    pool_schema: SchemaSkew = AS_BUILT
    """How the served CRD of pools differs from this operator's."""
    claim: QuotaRequest | None = None
    """What the pool asks of a resource that a policy's budget divides."""
    grant: QuotaGrant | None = None
    """What it may have of that."""
    candidate: CandidateDecision | None = None
    """What the candidate of a policy would do."""
    set_aside: str = ""
    """Why the settings that are asked for are not in force; empty while they are."""
    on_trial: bool = False
    """Whether it is being measured what they do."""
    peers: PoolPeers | None = None
    """Who may reach the pods, where the administrator says so."""
    contested: bool = False
    """Whether the operator backs off because somebody else keeps writing the replicas."""
    pods: tuple[PodObject, ...] = ()
    """Those that are not on their way out."""
    ready: tuple[PodObject, ...] = ()
    """Those that serve."""

    @property
    def replicas(self) -> int:
        """Return what the Deployment is to ask for."""
        return self.count.replicas

    @property
    def bounded(self) -> tuple[BoundedField, ...]:
        """Return what policies lowered, the count that a budget grants included."""
        if self.claim is None or self.grant is None or not self.grant.bound_by:
            return self.effective.bounded
        if self.grant.entitled >= self.claim.requested:
            return self.effective.bounded
        short = BoundedField(
            field=BUDGETED_FIELD,
            asked=str(self.claim.requested),
            granted=str(self.grant.entitled),
            policy=self.grant.policy,
        )
        return (*self.effective.bounded, short)

    @property
    def deployment(self) -> ChildObject | None:
        """Return the pool's own Deployment, if it is there."""
        return own_deployment(self.view)


def own_deployment(view: PoolView) -> ChildObject | None:
    """Return the Deployment that the pool controls, if it is there."""
    held = view.children.get(("Deployment", child_name(view.pool)))
    return held if held is not None and held.controller_uid == view.pool.uid else None
