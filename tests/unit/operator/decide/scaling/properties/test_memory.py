"""Properties of the law's state: windows and checkpoints from arbitrary data."""

import json
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from typing import Any

import pytest
from hypothesis import strategies as st

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import p90_seconds
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import outlook
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.capacity_at_objective.serialize import (
    from_checkpoint,
    to_checkpoint,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals import counters, windows
from penstock_operator.decide.scaling.signals.windows import Windows
from penstock_operator.measured import MEASURED_MAX, MEASURED_MIN, is_measured, measured
from penstock_operator.observed import GenerationSample, PodSample, PoolSignals, SignalSource
from tests.unit.operator.decide.scaling.properties.holds import holds
from tests.unit.operator.decide.scaling.properties.walks import WALKS, Walk, walked

MAX_DEMAND = 1e12
"""Largest valid demand of a checkpoint, in rows a second."""
ANYTHING = st.one_of(st.none(), st.floats(), st.sampled_from((-1.0, 5e-324, 1e16)))
FLOATS = st.one_of(st.floats(), st.floats(0, 1e6))
"""NaN, infinite and negative ones too."""
UIDS = ("a", "b", "c")
PODS = tuple(
    LawPod(uid, ready=True, terminating=False, acknowledged=True, cap_bound=None, created=created)
    for uid, created in zip(UIDS, (None, 995.0, 1e9), strict=True)
)
SAMPLES = st.builds(
    PodSample,
    uid=st.sampled_from((*UIDS, "stranger")),
    time=st.one_of(st.floats(900, 1300), st.floats()),
    waiting=ANYTHING,
    running=ANYTHING,
    requests_received=ANYTHING,
    rows_received=ANYTHING,
    curve=st.one_of(
        st.none(),
        st.builds(CurveSums.model_construct, epoch=st.integers(0, 2), batches=FLOATS, cost_units=FLOATS,
                  cost_units_squared=FLOATS, seconds=FLOATS, cost_unit_seconds=FLOATS,
                  seconds_squared=FLOATS, by_size=st.lists(FLOATS, max_size=7).map(tuple)),
    ),
    batch_duration_buckets=st.lists(st.tuples(FLOATS, FLOATS), max_size=4).map(tuple),
    request_duration_buckets=st.lists(st.tuples(FLOATS, FLOATS), max_size=4).map(tuple),
    requests_settled=ANYTHING,
    generation=st.one_of(
        st.none(),
        st.builds(GenerationSample, st.integers(0, 2), st.lists(FLOATS, min_size=14, max_size=15).map(tuple)),
    ),
)  # fmt: skip
ROUNDS = st.lists(
    st.tuples(
        st.sampled_from(tuple(SignalSource)), st.lists(SAMPLES, max_size=8), st.floats(0, 60)
    ),
    max_size=8,
)


@holds(value=st.floats())
def test_only_measurements_enter(value: float) -> None:
    known = measured(value)
    if known is None:
        assert value != 0
        assert not MEASURED_MIN <= value <= MEASURED_MAX
    else:
        assert known == value
        assert isfinite(value)
        assert value == 0 or isfinite(1 / value**4)
    assert is_measured(value) is (known is not None)


@holds(rounds=ROUNDS)
def test_windows_hold_measurements_in_order_and_within_their_bounds(
    rounds: list[tuple[SignalSource, list[PodSample], float]],
) -> None:
    known, now = Windows(), 1000.0
    for source, samples, passed in rounds:
        now += passed
        signals = PoolSignals(source, tuple(samples))
        known = windows.advance_windows(known, signals, PODS, now)
        assert windows.advance_windows(known, signals, PODS, now).pods == known.pods, (
            "twice is once"
        )
        for window in (*known.pods.values(), *known.gone.values()):
            holds_measurements(window)


def holds_measurements(window: windows.Window) -> None:
    assert 0 < len(window) <= windows.MAX_SAMPLES
    assert all(later.time > earlier.time for earlier, later in pairwise(window))
    for point in window:
        assert all(map(is_measured, point.counters.values()))
        assert all(value is None or is_measured(value) for value in (point.waiting, point.running))
    grown = counters.growth(window)
    assert all(isfinite(growth) and growth >= 0 for growth in grown.values())
    for name in counters.SUMS:
        rate = counters.per_second(window, name)
        assert rate is None or 0 <= rate <= MEASURED_MAX


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=16),
    max_leaves=30,
)
KEYS = (
    "starts", "level", "trend", "mean", "departed", "stayed", "judgements", "noise", "misses", "judged",
    "price", "imbalance", "dispersion", "unevenness", "revision", "largestRows", "curve", "curveBySize",
    "stepsRevision", "steps", "answers", "mostRows",
)  # fmt: skip
SUMS = st.dictionaries(st.sampled_from(counters.SUMS), JSON)


@holds(
    data=st.dictionaries(st.sampled_from(KEYS), st.one_of(JSON, SUMS)),
    written=st.one_of(st.floats(), st.floats(0, 1e6)),
)
def test_a_checkpoint_may_hold_anything(data: dict[str, Any], written: float) -> None:
    known = from_checkpoint(CapacityAtObjective().initial(1e6), data, written, 1e6)
    is_sound(known, 1e6)


def is_sound(known: CapacityState, now: float) -> None:
    seen = known.forecaster
    assert 0 <= outlook(seen, 60.0).expected < 1e16
    assert 1 <= p90_seconds(known.startup, now) <= 1800
    assert known.imbalance >= 1
    assert known.dispersion >= 1
    assert 0 <= known.unevenness <= 1e5
    text = json.dumps(to_checkpoint(known), allow_nan=False)
    assert len(text) < 16 * 1024


@holds(examples=10, walk=WALKS)
def test_what_is_kept_of_a_memory_is_the_same_when_it_is_kept_again(walk: Walk) -> None:
    law = CapacityAtObjective()
    for state, now in walked(law, replace(walk, ticks=min(walk.ticks, 30))):
        last, at = state, now
    is_sound(last, at)
    data = json.loads(json.dumps(to_checkpoint(last), allow_nan=False))
    known = from_checkpoint(law.initial(at), data, at, at)
    again = to_checkpoint(known)
    assert [round(seconds, 1) for seconds in known.startup.finished] == data.get("starts", [])
    if last.forecaster.time is not None and max(data["level"], data["mean"]) <= MAX_DEMAND:
        assert again["level"] == data["level"]
        assert again["price"] == data["price"]
        assert known.forecaster.mean == pytest.approx(last.forecaster.mean, rel=1e-3)
    if "curve" in data and known.curves.gone:
        (past,) = known.curves.gone.values()
        assert past.data.batches == pytest.approx(data["curve"]["batches"])
