"""What should be: the one value that `decide/` hands to `act/`.

What metrics tell of a pool: figures of its last decision that no status holds at every tick. Pure.
"""

from dataclasses import dataclass, field

from penstock_api.limits import LimitsUpdate
from penstock_api.types.policy import PolicyStatus
from penstock_api.types.status import PoolStatus
from penstock_operator.decide.actions import ChildWrite, EventNote, LimitsPush
from penstock_operator.decide.ledger import QuotaLedger
from penstock_operator.decide.scaling.failure import LawFailure


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """None is not known."""

    desired: int
    """Replicas that the law wants."""
    granted: int
    """Replicas that the Deployment is to ask for."""
    at_limit: bool
    """Whether a bound, a budget or the cluster keeps replicas from it."""
    signals_absent: bool
    """Whether Ready pods cannot be seen."""
    contested: bool
    """Whether somebody else keeps writing the Deployment's replicas."""
    demand: float | None
    """Rows a second."""
    forecast: float | None
    forecast_error: float | None
    """Rows a second that came, less those that were forecast for now."""
    utilization: float | None
    """Effective, as a share."""
    imbalance: float | None
    startup_seconds: float | None
    signal_age_seconds: float | None
    objective_good: float = 0.0
    """Requests on time since the pool was met."""
    objective_total: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What to do about one pool."""

    uid: str
    namespace: str
    name: str
    writes: tuple[ChildWrite, ...]
    limits: LimitsUpdate | None
    pushes: tuple[LimitsPush, ...]
    status: PoolStatus
    """Wanted status; `act/status.py` decides when samples are worth a write, never what they say."""
    events: tuple[EventNote, ...]
    law_state: object
    active: bool
    """Whether it is to be visited again at the fast tick."""
    figures: PlanFigures
    """For metrics."""
    checkpoint: ChildWrite | None = None
    """Keeps the law's memory; that it could not be written hinders nothing else."""
    record: str | None = None
    """What is to be kept of the pool's settings, in the operator's own namespace; None: nothing."""
    law_failure: LawFailure | None = None
    """The control law's failure at this tick; the plan holds count and cap."""


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """The wanted status of one policy."""

    name: str
    status: PolicyStatus


@dataclass(frozen=True, slots=True)
class PoolFailure:
    """A pool that could not be planned: a defect, told and kept from the other pools."""

    uid: str
    namespace: str
    name: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything one pass wants."""

    pools: tuple[PoolPlan, ...]
    policies: tuple[PolicyPlan, ...]
    failures: tuple[PoolFailure, ...] = ()
    ledger: QuotaLedger = field(default_factory=QuotaLedger)
    """Claims and grants, for the next pass."""
    affected: frozenset[str] = frozenset()
    """Pools that were not looked at, but whose grant changed: they are to be visited soon."""
