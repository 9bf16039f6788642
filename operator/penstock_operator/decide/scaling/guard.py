"""The state of a law, restored from its checkpoint, and its guarded step: if the law raises, the pool keeps its replica count and batch cap. Pure.

The bounds of the spec and of policies still apply, and other pools are not affected. The law is retried at every tick:
with the tick's samples added to its state; after `RETRIES` consecutive failures with the state of the checkpoint; after as
many more with the initial state. So neither an odd input nor a damaged state stops a pool for longer than it lasts.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.serialize import (
    from_checkpoint,
    to_checkpoint,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState, with_samples
from penstock_operator.decide.scaling.checkpoint import stored_checkpoint
from penstock_operator.decide.scaling.failure import LawFailure
from penstock_operator.decide.scaling.law import Decision, Law, LawInput, LawObservations
from penstock_operator.decide.scaling.reasons import (
    CapMove,
    CapReason,
    ReplicasMove,
    ReplicasReason,
)
from penstock_operator.decide.scaling.utilization_band import law as utilization_band
from penstock_operator.decide.scaling.utilization_band.batch_cap import clamp_cap
from penstock_operator.decide.scaling.utilization_band.law import BandState
from penstock_operator.decide.scaling.utilization_band.replicas import clamp_replicas
from penstock_operator.observed import PoolView, SignalSource

RETRIES = 3
"""Consecutive failures after which the law's state is replaced."""


class GuardedStep(NamedTuple):
    """A step of a law, or its failure."""

    state: Any
    """None: the next step starts from the pool's checkpoint."""
    decision: Decision
    failure: LawFailure | None = None


def guarded_step(
    law: Law[Any], begin: Callable[[], Any], observed: LawInput, now: float, failures: int
) -> GuardedStep:
    """Return the law's step from the state that `begin` returns; `failures` is the number of consecutive failures before."""
    state: Any = None
    try:
        state = begin()
        return GuardedStep(*law.step(state, observed, now))
    except Exception as error:  # noqa: BLE001 - reported with the outcome; the pool keeps its count
        failure = LawFailure(law.name, error, failures + 1, observed, now)
    return GuardedStep(_next_state(law, state, failure), _unchanged(failure), failure)


def _next_state(law: Law[Any], state: Any, failure: LawFailure) -> Any:
    """Return the state for the next attempt."""
    if failure.times >= 2 * RETRIES:
        return law.initial(failure.now)
    if state is None or failure.times >= RETRIES:
        return None
    try:
        return observe_without_decision(state, failure.observed, failure.now)
    except Exception:  # noqa: BLE001 - probably the cause of the failure
        return state


def _unchanged(failure: LawFailure) -> Decision:
    """Return the present count and cap, within their bounds."""
    observed, why = failure.observed, f"the control law failed: {failure.summary}"
    cap = clamp_cap(
        observed.settings.size_min if observed.cap is None else observed.cap, observed.settings
    )
    replicas = clamp_replicas(observed.replicas, observed.settings)
    decision = Decision.of(
        CapMove(cap, CapReason.LAW_FAILED, why),
        ReplicasMove(replicas, ReplicasReason.LAW_FAILED, why),
        LawObservations(),
    )
    return decision._replace(metrics_available=observed.signals.source is not SignalSource.NONE)


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
