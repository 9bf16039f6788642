"""Whatever the signals: inside the bounds, never down on missing data, never an exception."""

from dataclasses import replace
from math import inf, isfinite, nan
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock_api.limits import CurveSums
from penstock_operator.decide.scaling.capacity.capacity_at_objective import CapacityAtObjective
from penstock_operator.decide.scaling.law import Guards, Law, LawInput, LawPod, LawSettings
from penstock_operator.decide.scaling.utilization_band import UtilizationBand
from penstock_operator.observed import DutySource, PodSample, PoolSignals, SignalSource

ODD = st.sampled_from([nan, inf, -inf, -1.0, 0.0, 5e-324, 1e-300, 1.0, 7.5, 1e9, 1e15, 1e16, 1e308])
NUMBER = st.one_of(st.none(), ODD, st.floats(0, 1000))
SURE = st.one_of(ODD, st.floats(0, 1000))
UIDS = ("a", "b", "c", "d")
LAWS: list[Law[Any]] = [UtilizationBand(), CapacityAtObjective()]
GUARDS = st.builds(
    Guards,
    low_percent=st.none() | st.integers(1, 100),
    high_percent=st.none() | st.integers(1, 100),
    target_per_replica=st.none() | st.integers(1, 100),
    stabilization_seconds=st.sampled_from([None, 0, 5, 300]),
)


@st.composite
def law_settings(draw: st.DrawFn) -> LawSettings:
    size_min, size_max = sorted(draw(st.tuples(st.integers(1, 64), st.integers(1, 64))))
    low, high = sorted(draw(st.tuples(st.integers(1, 100), st.integers(1, 100))))
    least, most = sorted(draw(st.tuples(st.integers(1, 20), st.integers(1, 20))))
    return LawSettings(
        objective_milliseconds=draw(st.none() | st.integers(1, 3_600_000)),
        size_min=size_min,
        size_max=size_max,
        max_queue_delay_milliseconds=draw(st.integers(0, 60_000)),
        min_replicas=least,
        max_replicas=most,
        low_percent=low,
        high_percent=high,
        target_per_replica=draw(st.integers(1, 100)),
        stabilization_seconds=draw(st.sampled_from([0, 5, 10, 300])),
        max_percent_per_minute=draw(st.integers(1, 100)),
        guards=draw(GUARDS),
    )


CURVES = st.none() | st.builds(CurveSums, **dict.fromkeys(list(CurveSums.model_fields)[1:], SURE))
SAMPLES = st.builds(
    PodSample,
    uid=st.sampled_from(UIDS),
    time=st.one_of(st.floats(900, 1100), ODD),
    waiting=NUMBER,
    running=NUMBER,
    requests_received=NUMBER,
    rows_received=NUMBER,
    curve=CURVES,
    batch_duration_buckets=st.lists(st.tuples(SURE, SURE), max_size=4).map(tuple),
    out_of_memory_splits=NUMBER,
    gpu_utilization=NUMBER,
    duty_source=st.none() | st.sampled_from(DutySource),
    requests_settled=NUMBER,
    request_duration_buckets=st.lists(st.tuples(SURE, SURE), max_size=3).map(tuple),
)
PODS = st.builds(
    LawPod,
    uid=st.sampled_from(UIDS),
    ready=st.booleans(),
    terminating=st.booleans(),
    acknowledged=st.booleans(),
    cap_bound=st.none() | st.integers(1, 64),
    created=st.none() | st.floats(900, 1100),
    cap=st.none() | st.integers(1, 64),
    scheduled_since=st.none() | st.floats(900, 1100),
    ready_since=st.none() | st.floats(900, 1100),
    revision=st.sampled_from([None, "one", "two"]),
)
ROUNDS = st.lists(
    st.tuples(
        st.sampled_from(SignalSource),
        st.lists(SAMPLES, max_size=8),
        st.lists(PODS, max_size=4, unique_by=lambda pod: pod.uid),
        st.floats(0, 30),
    ),
    min_size=1,
    max_size=12,
)


def bears(
    law: Law[Any], chosen: LawSettings, rounds: list[Any], replicas: int, cap: int | None
) -> None:
    """Drive the law through the rounds, carrying out what it says, and check each decision."""
    now = 1000.0
    state = law.initial(now)
    for source, samples, pods, pause in rounds:
        now += pause
        signals = PoolSignals(source, tuple(samples))
        seen = LawInput(chosen, signals, tuple(pods), replicas, cap, limited=len(samples) % 2 > 0)
        state, decision = law.step(state, seen, now)
        assert chosen.size_min <= decision.cap <= chosen.size_max
        assert chosen.min_replicas <= decision.replicas <= chosen.max_replicas
        most = max(1, replicas * chosen.max_percent_per_minute // 100)
        assert decision.replicas >= min(replicas - most, chosen.max_replicas)
        if not decision.metrics_available or source is SignalSource.NONE:
            assert decision.replicas == min(max(replicas, chosen.min_replicas), chosen.max_replicas)
            assert cap is None or decision.cap == min(max(cap, chosen.size_min), chosen.size_max)
        figures = [value for value in vars_of(decision.seen) if isinstance(value, float)]
        assert all(isfinite(value) for value in figures)
        assert decision.message
        replicas, cap = decision.replicas, decision.cap


def vars_of(seen: Any) -> list[Any]:
    return [getattr(seen, name) for name in seen.__dataclass_fields__]


CASES = {
    "chosen": law_settings(),
    "rounds": ROUNDS,
    "replicas": st.integers(0, 30),
    "cap": st.none() | st.integers(1, 100),
}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(**CASES)
def test_the_laws_bear_any_signals(
    chosen: LawSettings, rounds: list[Any], replicas: int, cap: int | None
) -> None:
    for law in LAWS:
        bears(law, chosen, rounds, replicas, cap)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(**CASES)
def test_the_laws_bear_any_signals_for_long(
    chosen: LawSettings, rounds: list[Any], replicas: int, cap: int | None
) -> None:
    for law in LAWS:
        bears(law, chosen, rounds, replicas, cap)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_bounds_that_cross_are_borne(law: Law[Any]) -> None:
    chosen = LawSettings(None, 8, 4, 0, 5, 2, 50, 90, 4, 0, 100)
    seen = LawInput(chosen, PoolSignals(SignalSource.NONE), (), 3, 6)
    _, decision = law.step(law.initial(0.0), seen, 0.0)
    assert (decision.cap, decision.replicas) == (4, 2), "the maximum wins"
    _, decision = law.step(law.initial(0.0), replace(seen, cap=None), 0.0)
    assert decision.cap == 4
