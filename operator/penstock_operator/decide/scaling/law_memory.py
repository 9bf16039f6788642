"""The memory of the operator's own laws: how it begins, what is kept of it, and how it moves on without a decision. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock_operator.decide.scaling.capacity_at_objective.backfill import earlier, rebuilt
from penstock_operator.decide.scaling.capacity_at_objective.serialize import (
    from_checkpoint,
    to_checkpoint,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState, with_samples
from penstock_operator.decide.scaling.checkpoint import stored_checkpoint
from penstock_operator.decide.scaling.law import Law, LawInput
from penstock_operator.decide.scaling.signals.windows import advance_windows, store_time
from penstock_operator.decide.scaling.utilization_band import law as utilization_band
from penstock_operator.decide.scaling.utilization_band.law import BandState
from penstock_operator.observed import PoolView


def initial_state(law: Law[Any], view: PoolView, seen: LawInput, now: float) -> Any:
    """Return the state of a pool just met: its checkpoint, and the last minutes that a metrics store has of it."""
    state, kept = law.initial(now), stored_checkpoint(view)
    past = None if view.past is None else earlier(view.past, view.signals)
    if isinstance(state, BandState) and past is not None:
        return replace(state, windows=advance_windows(state.windows, past, seen.pods, now))
    if not isinstance(state, CapacityState):
        return state
    if kept is not None and kept.algorithm == law.name:
        state = from_checkpoint(state, kept.data, kept.written, now)
    return (
        state
        if past is None
        else rebuilt(state, past, seen.pods, store_time(view.signals, now), now)
    )


def observed(state: Any, seen: LawInput, now: float) -> Any:
    """Return the state with this tick's samples and no decision; holds begin again, since this tick's needs are not known."""
    if isinstance(state, CapacityState):
        after = with_samples(state, seen, now)
        return replace(after, count=replace(after.count, begun=now, needs=()))
    if isinstance(state, BandState):
        return replace(utilization_band.noted(state, seen, now), spare_since=None)
    return state


def checkpoint_data(state: object) -> Mapping[str, Any] | None:
    """Return what of a law's state is worth keeping through a restart; None where nothing is."""
    return to_checkpoint(state) if isinstance(state, CapacityState) else None
