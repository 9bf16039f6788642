"""Replay of the last minutes into the state of CapacityAtObjective (docs/design/control-law.md#state-after-a-restart). Pure.

The samples of a range query pass tick by tick through the parts that only measure: windows, curves, demand, its forecast and
the shape of the traffic. The replay makes no decisions, and holds start now: the count may rise at once and falls only after a
whole hold. Deleted pods are not included, so that a rollout just before looks like a rise of demand.
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
"""The law's tick."""
MAX_REPLAY_SECONDS = 600.0
"""Maximum age of a replayed sample."""


def before_present(past: PoolSignals, present: PoolSignals) -> PoolSignals:
    """Return the past samples older than the present round; nothing if they are from another source."""
    if past.source is not present.source:
        return PoolSignals(SignalSource.NONE)
    first = min((sample.time for sample in present.samples), default=inf)
    return replace(past, samples=tuple(sample for sample in past.samples if sample.time < first))


def replay(
    state: CapacityState, past: PoolSignals, pods: Sequence[LawPod], store_now: float, now: float
) -> CapacityState:
    """Return `state`, of a new pool, after a replay of its past; `store_now` is the present time by the samples' clock."""
    samples = sorted(
        (
            sample
            for sample in past.samples
            if store_now - MAX_REPLAY_SECONDS <= sample.time <= store_now
        ),
        key=lambda sample: sample.time,
    )
    if not samples:
        return state
    times = [sample.time for sample in samples]
    steps = int((store_now - times[0]) / STEP_SECONDS)
    before = 0
    for at in (store_now - STEP_SECONDS * step for step in range(steps, -1, -1)):
        upto = bisect_right(times, at)
        part = PoolSignals(past.source, tuple(samples[before:upto]), queried_at=at)
        state, before = _replay_tick(state, part, pods, now - (store_now - at)), upto
    return replace(state, count=Count(begun=now))


def _replay_tick(
    state: CapacityState, signals: PoolSignals, pods: Sequence[LawPod], now: float
) -> CapacityState:
    """Return the state after one replayed tick; without new samples it is unchanged."""
    windows = advance_windows(state.windows, signals, pods, now)
    if not has_new_samples(state.windows, windows):
        return state
    store_now = store_time(signals, now)
    state = replace(
        state,
        windows=windows,
        curves=learn_batches(state.curves, windows.pods, pods),
        step_curves=learn_steps(state.step_curves, windows.pods, pods),
    )
    demand = load(pods, windows.pods, {}, store_now, 1.0)
    state = smooth(state, demand, now)
    if demand.recent is None:
        return state
    newest = demand.recent if demand.newest is None else demand.newest
    sample = forecast.DemandSample(demand.recent, newest, felt=False, judged=False)
    horizon = p90_seconds(state.startup, now) + STEP_SECONDS
    return replace(state, forecaster=forecast.advance(state.forecaster, sample, horizon, now))
