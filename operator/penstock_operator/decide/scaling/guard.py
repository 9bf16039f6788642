"""A guarded step of a control law: where the law raises, the pool keeps its replica count and batch cap. Pure.

The bounds of the spec and of policies hold all the same. Other pools are not affected, and the law is tried again at every
tick: with the tick's samples added to its memory; after `RETRIES` failures in a row with the memory of the checkpoint, and
after as many more with none. So neither a passing input nor a damaged memory stops a pool for longer than it lasts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock_operator.decide.scaling import law_memory
from penstock_operator.decide.scaling.failure import LawFailure
from penstock_operator.decide.scaling.law import Decision, Law, LawInput, LawObservations
from penstock_operator.decide.scaling.reasons import CapReason, ReplicasReason
from penstock_operator.decide.scaling.utilization_band.batch_cap import clamp_cap
from penstock_operator.decide.scaling.utilization_band.replicas import clamp_replicas
from penstock_operator.observed import SignalSource

RETRIES = 3
"""Failures in a row after which the law's memory is replaced."""
MISSING = LawObservations(None, None, None, None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class GuardedStep:
    """A step of a law, taken or failed."""

    state: Any
    """None: the next step begins from the pool's checkpoint."""
    decision: Decision
    failure: LawFailure | None = None


def guarded_step(
    law: Law[Any], begun: Callable[[], Any], seen: LawInput, now: float, failures: int
) -> GuardedStep:
    """Return the law's step from the state that `begun` returns; `failures` counts those just before."""
    state: Any = None
    try:
        state = begun()
        return GuardedStep(*law.step(state, seen, now))
    except Exception as error:  # noqa: BLE001 - reported with the outcome; the pool keeps its count
        failure = LawFailure(law.name, error, failures + 1, seen, now)
    return GuardedStep(_next_state(law, state, failure), _held(failure), failure)


def _next_state(law: Law[Any], state: Any, failure: LawFailure) -> Any:
    """Return the memory for the next attempt."""
    if failure.times >= 2 * RETRIES:
        return law.initial(failure.now)
    if state is None or failure.times >= RETRIES:
        return None
    try:
        return law_memory.observed(state, failure.seen, failure.now)
    except Exception:  # noqa: BLE001 - what made the step raise, most likely
        return state


def _held(failure: LawFailure) -> Decision:
    """Return the count and the cap as they are, within their bounds."""
    seen, why = failure.seen, f"the control law failed: {failure.summary}"
    cap = clamp_cap(seen.settings.size_min if seen.cap is None else seen.cap, seen.settings)
    replicas = clamp_replicas(seen.replicas, seen.settings)
    return Decision(
        cap=cap,
        replicas=replicas,
        cap_term=CapReason.LAW_FAILED,
        replicas_term=ReplicasReason.LAW_FAILED,
        message=f"cap {cap}, replicas {replicas}: {why}",
        observations=MISSING,
        metrics_available=seen.signals.source is not SignalSource.NONE,
        cap_why=why,
        replicas_why=why,
    )
