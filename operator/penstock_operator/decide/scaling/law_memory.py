"""The state of the built-in laws: its initial value, its checkpoint, and a tick without a decision. Pure."""

from collections.abc import Mapping
from typing import Any

from penstock_operator.decide.scaling.capacity_at_objective.serialize import (
    from_checkpoint,
    to_checkpoint,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState, with_samples
from penstock_operator.decide.scaling.checkpoint import stored_checkpoint
from penstock_operator.decide.scaling.law import Law, LawInput
from penstock_operator.decide.scaling.utilization_band import law as utilization_band
from penstock_operator.decide.scaling.utilization_band.law import BandState
from penstock_operator.observed import PoolView


def initial_state(law: Law[Any], view: PoolView, now: float) -> Any:
    """Return the first state of a pool, restored from its checkpoint if it has one."""
    state, kept = law.initial(now), stored_checkpoint(view)
    if isinstance(state, CapacityState) and kept is not None and kept.algorithm == law.name:
        return from_checkpoint(state, kept.data, kept.written, now)
    return state


def observe_without_decision(state: Any, observed: LawInput, now: float) -> Any:
    """Return the state with this tick's samples and no decision; holds restart, because this tick's needs are unknown."""
    if isinstance(state, CapacityState):
        after = with_samples(state, observed, now)
        return after._replace(counting=after.counting._replace(begun=now, needs=()))
    if isinstance(state, BandState):
        return utilization_band.noted(state, observed, now)._replace(spare_since=None)
    return state


def checkpoint_data(state: object) -> Mapping[str, Any] | None:
    """Return the part of a law's state that a checkpoint stores; None if there is nothing to store."""
    return to_checkpoint(state) if isinstance(state, CapacityState) else None
