"""Everything that a pass decided about one pool, from which conditions, status, Events and child writes follow."""

from dataclasses import dataclass

from penstock_api.pod_contract import LimitsUpdate
from penstock_api.types.status import BoundedField, CandidateDecision, CostStatus
from penstock_operator.decide.config import PoolPeers
from penstock_operator.decide.gateway import GatewayPlan
from penstock_operator.decide.manifests.deployment import ReplicaCount
from penstock_operator.decide.manifests.pinned_template import Pinned
from penstock_operator.decide.manifests.rollout import RolloutPlan
from penstock_operator.decide.manifests.workload import own_workload
from penstock_operator.decide.quota_ledger import QuotaGrant, QuotaRequest
from penstock_operator.decide.scaling.decision import ScalingOutcome
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import ChildObject, PodObject, PoolView, UnreadablePolicy
from penstock_operator.schema_skew import AS_BUILT, SchemaSkew
from penstock_operator.variants import NO_FIGURES, VariantFigures

BUDGETED_FIELD = "status.desiredReplicas"
"""The field that a budget lowers: the resulting count, which is not in the spec."""

NO_ROUTE = GatewayPlan()


@dataclass(frozen=True, slots=True)
class PoolOutcome:
    """The decisions about one pool in one pass, before they are reported."""

    view: PoolView
    effective: EffectiveSpec
    scaling: ScalingOutcome
    pinned: Pinned
    count: ReplicaCount
    """Replicas of the workload."""
    conflicts: tuple[ChildObject, ...]
    """Objects under the children's names that this pool does not control."""
    limits: LimitsUpdate | None
    policies_readable: bool
    rollout: RolloutPlan
    """How pods get the pinned template."""
    unreadable_policies: tuple[UnreadablePolicy, ...] = ()
    pool_schema: SchemaSkew = AS_BUILT
    """Differences between the served CRD of pools and this operator's."""
    quota_request: QuotaRequest | None = None
    """The pool's request for devices that a policy's budget divides."""
    grant: QuotaGrant | None = None
    """The grant for that request."""
    candidate: CandidateDecision | None = None
    """The decision of a policy's candidate in shadow."""
    rolled_back: str = ""
    """Reason for which the requested settings are not in force; empty while they are."""
    on_trial: bool = False
    """Whether the effect of the requested settings is being measured."""
    gateway: GatewayPlan = NO_ROUTE
    """The route of the pool's requests, and the writes of the namespace's gateway."""
    peers: PoolPeers | None = None
    """Sources that the NetworkPolicy admits; None without a NetworkPolicy."""
    contested: bool = False
    """Whether the operator backs off because another writer keeps changing the replicas."""
    on_time: float | None = None
    """Share of the last minutes' requests that met the objectives; None without an objective or requests."""
    cost: CostStatus | None = None
    """Cost of the pool; None while no policy has prices for it."""
    pods: tuple[PodObject, ...] = ()
    """Pods that are not terminating."""
    ready: tuple[PodObject, ...] = ()
    """Ready pods among `pods`."""
    variant: VariantFigures = NO_FIGURES
    """For the pool with the variants, where this is the pool of one."""

    @property
    def replicas(self) -> int:
        """Return the replicas of the workload under this plan."""
        return self.count.replicas

    @property
    def bounded(self) -> tuple[BoundedField, ...]:
        """Return the fields that policies lowered, the count that a budget grants included."""
        request, grant = self.quota_request, self.grant
        if request is None or grant is None or not grant.bound_by:
            return self.effective.bounded
        if grant.entitled >= request.requested:
            return self.effective.bounded
        short = BoundedField(
            field=BUDGETED_FIELD,
            asked=str(request.requested),
            granted=str(grant.entitled),
            policy=grant.policy,
        )
        return (*self.effective.bounded, short)

    @property
    def workload(self) -> ChildObject | None:
        """Return the pool's own workload, if it exists."""
        return own_workload(self.view)
