"""State that the planner keeps of a pool between passes; it is in memory only, and every value can be rebuilt."""

from typing import NamedTuple

from penstock_api.pod_contract import LimitsUpdate
from penstock_operator.decide.manifests.rollout import SurgeLimits
from penstock_operator.decide.planning.memoized import MemoizedInputs
from penstock_operator.decide.planning.shadow import Shadow
from penstock_operator.decide.rollback.record import Record
from penstock_operator.decide.rollback.trial import RollbackWatch
from penstock_operator.decide.scaling.signals.attainment import Attainment, OnTime


class PlannerState(NamedTuple):
    """The planner's part of a plan's `law_state`."""

    time: float = 0.0
    """Time of the pass."""
    scaling: object | None = None
    """State of the scaling package, opaque here."""
    limits: LimitsUpdate | None = None
    """Limits that this process published last; the cache may not contain them yet."""
    busy_until: float = 0.0
    """Time until which the pool's passes are at the fast tick because of earlier activity."""
    attainment: Attainment = Attainment()
    """Counts of requests on time and of all requests."""
    on_time: OnTime = OnTime()
    """Attainment of the last minutes, for the status."""
    checkpointed_at: float | None = None
    """Time of the last checkpoint decision; None at the pool's first pass."""
    memoized: MemoizedInputs = MemoizedInputs()
    """Values that depend only on what users wrote."""
    rollback_watch: RollbackWatch = RollbackWatch()
    """Measurements under the settings in force, for rollback."""
    rollback_record: Record | None = None
    """Rollback record that this process last planned to store; the cache may not contain it yet."""
    shadow: Shadow | None = None
    """State of the policy's candidate on this pool."""
    surge: SurgeLimits = SurgeLimits()
    """Grant and times that limit the additional pod of a rollout."""
    contest: tuple[tuple[float, str], ...] = ()
    """(time, version) of each write of the replicas by another writer."""


def planner_state(state: object | None, now: float) -> PlannerState:
    """Return the planner's state in a plan's `law_state`; anything else begins a new state.

    Times of a state are not comparable once the clock was set back: what is measured by them begins again, as after a
    restart.
    """
    if not isinstance(state, PlannerState):
        return PlannerState()
    if state.time <= now:
        return state
    return PlannerState(
        scaling=state.scaling,
        limits=state.limits,
        attainment=state.attainment,
        checkpointed_at=now,
        memoized=state.memoized,
        rollback_record=state.rollback_record,
        shadow=state.shadow,
    )
