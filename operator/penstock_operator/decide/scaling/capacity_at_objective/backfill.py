"""The second law's memory from what the store still has of the last minutes (docs/design/control-law.md#state-after-a-restart). Pure.

The past is lived through again, tick by tick, by the parts that only look: windows, curves, demand, its forecast and the
shape of the traffic. Nothing is decided on the way, and holds begin now: up at once, down only after a whole one.
Pods that are gone are not in it, since nobody can vouch for them any more: a rollout of just before looks like a rise.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    learn_batches,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import p90_seconds
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_curves import (
    learn_steps,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand import forecast
from penstock_operator.decide.scaling.capacity_at_objective.demand.load import load
from penstock_operator.decide.scaling.capacity_at_objective.replicas import Count
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState, smooth
from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals.windows import (
    advance_windows,
    has_new_samples,
    store_time,
)
from penstock_operator.observed import PoolSignals, SignalSource

STEP_SECONDS = 5.0
"""As the law's own tick."""
MAX_REPLAY_SECONDS = 600.0
"""Samples older than this are of no tick."""


def earlier(past: PoolSignals, present: PoolSignals) -> PoolSignals:
    """Return the past without what the present round tells by itself; nothing where another store told it."""
    if past.source is not present.source:
        return PoolSignals(SignalSource.NONE)
    first = min((one.time for one in present.samples), default=inf)
    return replace(past, samples=tuple(one for one in past.samples if one.time < first))


def rebuilt(
    state: CapacityState, past: PoolSignals, pods: Sequence[LawPod], asked: float, now: float
) -> CapacityState:
    """Return `state`, of a pool just met, with what its past teaches; `asked` is now by the store's clock."""
    samples = sorted(
        (one for one in past.samples if asked - MAX_REPLAY_SECONDS <= one.time <= asked),
        key=lambda one: one.time,
    )
    if not samples:
        return state
    times = [one.time for one in samples]
    steps = int((asked - times[0]) / STEP_SECONDS)
    before = 0
    for at in (asked - STEP_SECONDS * step for step in range(steps, -1, -1)):
        upto = bisect_right(times, at)
        part = PoolSignals(past.source, tuple(samples[before:upto]), queried_at=at)
        state, before = _lived(state, part, pods, now - (asked - at)), upto
    return replace(state, count=Count(begun=now))


def _lived(
    state: CapacityState, signals: PoolSignals, pods: Sequence[LawPod], now: float
) -> CapacityState:
    """Return the state after one tick of the past; it moves only on new samples."""
    windows = advance_windows(state.windows, signals, pods, now)
    if not has_new_samples(state.windows, windows):
        return state
    asked = store_time(signals, now)
    state = replace(
        state,
        windows=windows,
        curves=learn_batches(state.curves, windows.pods, pods),
        step_curves=learn_steps(state.step_curves, windows.pods, pods),
    )
    found = load(pods, windows.pods, {}, asked, 1.0)
    state = smooth(state, found, now)
    if found.recent is None:
        return state
    newest = found.recent if found.newest is None else found.newest
    sample = forecast.DemandSample(found.recent, newest, felt=False, judged=False)
    horizon = p90_seconds(state.startup, now) + STEP_SECONDS
    return replace(state, forecaster=forecast.advance(state.forecaster, sample, horizon, now))
