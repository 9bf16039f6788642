"""The plan of one pass: everything that `act/` writes, pushes and reports, as one value. Pure."""

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock_api.pod_contract import LimitsUpdate
from penstock_api.types.policy import PolicyStatus
from penstock_api.types.status import CostStatus, PoolStatus
from penstock_operator.decide.actions import ChildWrite, EventNote, LimitsPush
from penstock_operator.decide.quota_ledger import QuotaLedger
from penstock_operator.decide.scaling.failure import LawFailure
from penstock_operator.decide.spec.objectives import LATE_SHARE
from penstock_operator.variants import VariantFigures


class PlanFigures(NamedTuple):
    """Metrics of a pool's last decision that its status does not contain at every tick; None is unknown."""

    desired: int
    """Replicas that the law computes."""
    granted: int
    """Replicas of the Deployment under this plan."""
    at_limit: bool
    """Whether a bound, a budget or the cluster withholds replicas."""
    signals_absent: bool
    """Whether Ready pods have no signals."""
    contested: bool
    """Whether another writer keeps changing the workload's replicas."""
    stalled: bool
    """Whether the pool cannot reach its spec without help."""
    demand: float | None
    """Rows per second."""
    forecast: float | None
    forecast_error: float | None
    """Rows per second that arrived, minus those that were forecast for now."""
    utilization: float | None
    """Effective utilization, as a share."""
    imbalance: float | None
    """Demand of the busiest pod over the mean; None without demand, where the law keeps its last value."""
    startup_seconds: float | None
    signal_age_seconds: float | None
    objective_good: float = 0.0
    """Requests on time since this process first observed the pool."""
    objective_total: float = 0.0
    objective_target: float = 1 - LATE_SHARE
    """Share of requests that the strictest objective requires to be on time."""
    cost: CostStatus | None = None
    """Cost of the pool; None while no policy has prices for it."""
    variant: VariantFigures = VariantFigures()
    """For the pool with the variants, where this is the pool of one."""


class PoolPlan(NamedTuple):
    """The actions for one pool."""

    uid: str
    namespace: str
    name: str
    writes: tuple[ChildWrite, ...]
    limits: LimitsUpdate | None
    pushes: tuple[LimitsPush, ...]
    status: PoolStatus
    """Desired status; `act/status.py` decides when a change of figures is worth a write."""
    events: tuple[EventNote, ...]
    law_state: object
    active: bool
    """Whether the pool's next pass is at the fast tick."""
    figures: PlanFigures
    """Values for metrics."""
    checkpoint: ChildWrite | None = None
    """Checkpoint of the law's state; its failure blocks no other action."""
    record: str | None = None
    """Rollback record to store in the operator's own namespace; None: nothing to store."""
    law_failure: LawFailure | None = None
    """The control law's failure at this tick; the plan holds count and cap."""


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """The desired status of one policy."""

    name: str
    status: PolicyStatus


@dataclass(frozen=True, slots=True)
class PoolFailure:
    """A pool whose planning raised: a defect, reported and isolated from the other pools."""

    uid: str
    namespace: str
    name: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Plan:
    """All actions of one pass."""

    pools: tuple[PoolPlan, ...]
    policies: tuple[PolicyPlan, ...]
    failures: tuple[PoolFailure, ...] = ()
    ledger: QuotaLedger = field(default_factory=QuotaLedger)
    """Quota requests and grants, for the next pass."""
    affected: frozenset[str] = frozenset()
    """Pools outside this pass whose grant changed; they are enqueued."""
