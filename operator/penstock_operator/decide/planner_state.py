"""What the planner remembers of a pool between passes; lost with the process, and nothing breaks."""

from dataclasses import dataclass, field

from penstock_api.limits import LimitsUpdate
from penstock_operator.decide.memoized import MemoizedInputs
from penstock_operator.decide.rollback.record import Record
from penstock_operator.decide.rollback.trial import RollbackWatch
from penstock_operator.decide.scaling.signals.attainment import Attainment
from penstock_operator.decide.shadow import Shadow


@dataclass(frozen=True, slots=True)
class PlannerState:
    """The planner's part of a plan's `law_state`."""

    scaling: object | None = None
    """The scaling room's own state, opaque here."""
    limits: LimitsUpdate | None = None
    """What this process published last: the store may not have seen it yet."""
    busy_until: float = 0.0
    """Until when the pool is visited at the fast tick for what it did before."""
    attainment: Attainment = field(default_factory=Attainment)
    """Requests on time, and all."""
    kept_at: float | None = None
    """When the law's memory was last looked at for keeping; None: the pool was just met."""
    standing: MemoizedInputs = field(default_factory=MemoizedInputs)
    """What follows from people's words alone."""
    watch: RollbackWatch = field(default_factory=RollbackWatch)
    """How the settings do, where an edit that does harm is to be set aside."""
    record: Record | None = None
    """What this process last wanted kept of them: the store may not have seen it yet."""
    shadow: Shadow | None = None
    """The candidate that is tried on the pool."""
    contest: tuple[tuple[float, str], ...] = ()
    """When, and at which resourceVersion, somebody else was seen to have written the replicas."""


def remembered(state: object | None) -> PlannerState:
    """Return the memory in a plan's `law_state`; anything else is a pool just met."""
    return state if isinstance(state, PlannerState) else PlannerState()
