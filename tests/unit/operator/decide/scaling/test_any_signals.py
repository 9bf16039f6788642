"""Whatever the signals: inside the bounds, never down on missing data, never an exception."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.law import Decision, Law, LawInput, LawPod
from penstock_operator.decide.scaling.signals.windows import MAX_AGE_SECONDS
from penstock_operator.decide.scaling.utilization_band.batch_cap import clamp_cap
from penstock_operator.decide.scaling.utilization_band.law import UtilizationBand
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import PodSample, PoolSignals, SignalSource
from tests.unit.operator.decide.scaling.odd_rounds import START, Case, case

LAWS: list[Law[Any]] = [UtilizationBand(), CapacityAtObjective()]
CASES = st.binary(min_size=16, max_size=1024).map(case)


def bears(law: Law[Any], met: Case) -> set[str]:
    """Drive the law through the rounds, carrying out what it says, and check each decision; return the terms."""
    replicas, cap, terms = met.replicas, met.cap, set()
    sampled: dict[str, float] = {}
    state = law.initial(START)
    for round_ in met.rounds:
        signals, short = PoolSignals(round_.source, round_.samples), len(round_.samples) % 2 > 0
        seen = LawInput(round_.settings, signals, round_.pods, replicas, cap, limited=short)
        state, decision = law.step(state, seen, round_.now)
        if round_.source is not SignalSource.NONE:
            sampled |= dict.fromkeys((sample.uid for sample in round_.samples), round_.now)
        stays_in_bounds(seen, decision)
        without = silent(seen, sampled, round_.now)
        gives_no_silent_pod_away(seen, decision, without, round_.now - MAX_AGE_SECONDS)
        figures = [value for value in decision.observations if isinstance(value, float)]
        assert all(isfinite(value) for value in figures)
        assert decision.message
        replicas, cap = decision.replicas, decision.cap
        terms |= {decision.cap_term, decision.replicas_term}
    return terms


def ready(seen: LawInput) -> list[LawPod]:
    return [pod for pod in seen.pods if pod.ready and not pod.terminating]


def silent(seen: LawInput, sampled: Mapping[str, float], now: float) -> list[LawPod]:
    """Return the Ready pods that have no sample young enough to be used."""
    return [pod for pod in ready(seen) if now - sampled.get(pod.uid, 0.0) > MAX_AGE_SECONDS]


def memory_bound(seen: LawInput) -> int | None:
    return min((pod.cap_bound for pod in ready(seen) if pod.cap_bound is not None), default=None)


def stays_in_bounds(seen: LawInput, decision: Decision) -> None:
    """Hold to the settings of this very round. A cap over what memory allows is never planned, nor raised to."""
    chosen, replicas = seen.settings, seen.replicas
    assert chosen.size_min <= decision.cap <= chosen.size_max
    assert chosen.min_replicas <= decision.replicas <= chosen.max_replicas
    most = max(1, replicas * chosen.max_percent_per_minute // 100)
    assert decision.replicas >= min(replicas - most, chosen.max_replicas)
    bound = memory_bound(seen)
    if bound is not None:
        allowed = clamp_cap(bound, chosen)
        keeps = decision.observations.planned_cap is None and seen.cap is not None
        bounded = clamp_cap(seen.cap or 1, chosen) if keeps else allowed
        assert decision.cap <= max(allowed, bounded)


def gives_no_silent_pod_away(
    seen: LawInput, decision: Decision, silent: list[LawPod], oldest: float
) -> None:
    """Hold all where most are silent. Where some are, what stays carries the rest's demand and these at full duty.

    A pod that became Ready after the `oldest` usable sample may be younger than the samples of the others.
    """
    chosen = seen.settings
    bounded = min(max(seen.replicas, chosen.min_replicas), chosen.max_replicas)
    overdue = sum(pod.ready_since is None or pod.ready_since <= oldest for pod in silent)
    if seen.signals.source is SignalSource.NONE or 2 * overdue > len(ready(seen)):
        assert not decision.metrics_available
    if not decision.metrics_available:
        assert decision.replicas == bounded
        assert seen.cap is None or decision.cap == clamp_cap(seen.cap, chosen)
    if decision.replicas < bounded:
        assert decision.replicas >= needed(seen, decision) + len(silent)


def needed(seen: LawInput, decision: Decision) -> float:
    """Return the replicas that the measured demand needs: the largest demand of a term, else the rate over the capacity at the cap."""
    if decision.demands:
        return max(demand.replicas for demand in decision.demands)
    rows, curve = decision.observations.rows_per_second, decision.observations.curve
    if rows is None or curve is None:
        return 0.0
    cap = seen.cap or seen.settings.size_min
    cap = min(cap, memory_bound(seen) or cap)
    return rows * (curve.a + curve.c * cap) / cap


@settings(max_examples=200, deadline=None)
@given(CASES)
def test_the_laws_bear_any_signals(met: Case) -> None:
    for law in LAWS:
        bears(law, met)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(max_examples=5000, deadline=None)
@given(CASES)
def test_the_laws_bear_any_signals_for_long(met: Case) -> None:
    for law in LAWS:
        bears(law, met)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_bounds_that_cross_are_borne(law: Law[Any]) -> None:
    chosen = LawSettings(None, 8, 4, 0, 5, 2, 50, 90, 4, 0, 100)
    seen = LawInput(chosen, PoolSignals(SignalSource.NONE), (), 3, 6)
    _, decision = law.step(law.initial(0.0), seen, 0.0)
    assert (decision.cap, decision.replicas) == (4, 2), "the maximum wins"
    _, decision = law.step(law.initial(0.0), seen._replace(cap=None), 0.0)
    assert decision.cap == 4


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_pod_whose_sums_contradict_each_other_is_borne(law: Law[Any]) -> None:
    chosen = LawSettings(1000, 1, 64, 0, 1, 5, 50, 90, 4, 0, 100)
    pod = LawPod("a", ready=True, terminating=False, acknowledged=True, cap_bound=None)
    state = law.initial(START)
    for tick in range(5):
        sums = CurveSums(
            batches=1.0 + tick, cost_units=5e-324, cost_units_squared=1e15, seconds=1.0 + tick
        )
        sample = PodSample("a", START + 5 * tick, 1.0, 1.0, 10.0 * tick, 10.0 * tick, sums)
        signals = PoolSignals(SignalSource.PODS, (sample,))
        state, decision = law.step(state, LawInput(chosen, signals, (pod,), 3, 8), START + 5 * tick)
        assert 1 <= decision.cap <= 64
