"""A guarded step of a control law: if the law raises, the pool keeps its replica count and batch cap. Pure.

The bounds of the spec and of policies still apply, and other pools are not affected. The law is retried at every tick:
with the tick's samples added to its state; after `RETRIES` consecutive failures with the state of the checkpoint; after as
many more with the initial state. So neither an odd input nor a damaged state stops a pool for longer than it lasts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock_operator.decide.scaling import law_memory
from penstock_operator.decide.scaling.failure import LawFailure
from penstock_operator.decide.scaling.law import Decision, Law, LawInput, LawObservations
from penstock_operator.decide.scaling.reasons import (
    CapMove,
    CapReason,
    ReplicasMove,
    ReplicasReason,
)
from penstock_operator.decide.scaling.utilization_band.batch_cap import clamp_cap
from penstock_operator.decide.scaling.utilization_band.replicas import clamp_replicas
from penstock_operator.observed import SignalSource

RETRIES = 3
"""Consecutive failures after which the law's state is replaced."""
MISSING = LawObservations(None, None, None, None, None, None, None, None)


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
        return law_memory.observe_without_decision(state, failure.observed, failure.now)
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
        MISSING,
    )
    return decision._replace(metrics_available=observed.signals.source is not SignalSource.NONE)
