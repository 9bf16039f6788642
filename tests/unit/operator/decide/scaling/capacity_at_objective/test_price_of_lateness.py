"""The price of late requests is learned from counts, and the cheapest count follows from it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import (
    ALLOWED_SHARE,
    INITIAL_PRICE,
    MAX_PRICE,
    MIN_PRICE,
    Lateness,
    cheapest_count,
    count_late,
    late_beyond,
    reprice,
)
from penstock_operator.decide.scaling.signals.attainment import Objectives
from penstock_operator.observed import GenerationSample, PodSample, PoolSignals, SignalSource

INF = float("inf")


def sample(time: float, settled: float, good: float, uid: str = "a") -> PodSample:
    buckets = ((1.0, good), (INF, settled))
    return PodSample(uid, time, requests_settled=settled, request_duration_buckets=buckets)


def looked(before: Lateness, *samples: PodSample, now: float) -> tuple[Lateness, float | None]:
    return count_late(before, PoolSignals(SignalSource.PODS, samples), Objectives(1000), now)


def test_lateness_beyond_the_allowed_share_is_in_seconds_of_traffic() -> None:
    first, late = looked(Lateness(INITIAL_PRICE), sample(1.0, 100.0, 100.0), now=5.0)
    assert late == 0.0, "nothing can be said of one sample"
    _, late = looked(first, sample(6.0, 600.0, 550.0), now=10.0)
    assert late == pytest.approx(0.5 - 5 * ALLOWED_SHARE)


def test_of_the_first_and_the_other_tokens_those_that_are_late_more_often_count() -> None:
    def tokens(time: float, settled: float, first: float, each: float) -> PodSample:
        generation = GenerationSample(
            1,
            (0.0,) * 15,
            first_token_buckets=((2.0, first), (INF, settled)),
            output_token_buckets=((0.05, each), (INF, settled)),
        )
        return replace(sample(time, settled, settled), generation=generation)

    objectives = Objectives(first_token=2000, output_token=50)
    known, late = Lateness(INITIAL_PRICE), None
    for time, pod in ((1.0, tokens(1.0, 100, 100, 100)), (6.0, tokens(6.0, 600, 550, 590))):
        signals = PoolSignals(SignalSource.PODS, (pod,))
        known, late = count_late(known, signals, objectives, time + 4)
    assert late == pytest.approx(0.5 - 5 * ALLOWED_SHARE)


def test_a_stricter_percentage_makes_the_same_lateness_count_more() -> None:
    assert late_beyond(0.006, 1.0, 0.01) == 0.0
    assert late_beyond(0.03, 1.0, 0.05) == pytest.approx(0.0)
    assert late_beyond(0.0006, 1.0, 0.001) == pytest.approx(0.0)
    assert late_beyond(0.01, 1.0, 0.001) > late_beyond(0.01, 1.0, 0.01) > 0
    assert late_beyond(0.01, 1.0, 0.05) < 0


def test_the_same_samples_twice_say_nothing_new() -> None:
    first, _ = looked(Lateness(INITIAL_PRICE), sample(1.0, 100.0, 100.0), now=5.0)
    again, late = looked(first, sample(1.0, 100.0, 100.0), now=10.0)
    assert late == 0.0
    assert again.lateness_price == INITIAL_PRICE


def test_pods_without_counts_and_pools_without_objective_have_no_lateness() -> None:
    assert looked(Lateness(INITIAL_PRICE), PodSample("a", 1.0), now=5.0)[1] is None
    signals = PoolSignals(SignalSource.PODS, (sample(1.0, 1.0, 0.0),))
    assert count_late(Lateness(lateness_price=50.0), signals, Objectives(), 5.0) == (
        Lateness(INITIAL_PRICE),
        None,
    )


def test_the_price_rises_with_what_was_late_and_stays_in_its_bounds() -> None:
    known = Lateness(INITIAL_PRICE)
    assert reprice(known, 1.0).lateness_price > INITIAL_PRICE > reprice(known, -1.0).lateness_price
    assert reprice(known, 1e9).lateness_price == reprice(known, 5.0).lateness_price, (
        "a stall says no more than that"
    )
    assert reprice(known._replace(lateness_price=MAX_PRICE), 1.0).lateness_price == MAX_PRICE
    assert reprice(known._replace(lateness_price=MIN_PRICE), -1e9).lateness_price == MIN_PRICE


def test_invalid_counts_are_ignored() -> None:
    first, _ = looked(Lateness(INITIAL_PRICE), sample(1.0, 100.0, 100.0), now=5.0)
    for odd in (float("nan"), -1.0, INF):
        after, late = looked(first, sample(6.0, odd, 550.0), sample(6.0, 600.0, odd, "b"), now=10.0)
        assert late == 0.0
        assert after.counted.total == 0.0


class Cliff(dict[int, float]):
    """No request is late below the edge, all above it."""

    def __init__(self, edge_percent: int) -> None:
        super().__init__()
        self.edge_percent = edge_percent

    def __missing__(self, percent: int) -> float:
        return float(percent > self.edge_percent)


def cliff(edge: float) -> Callable[[float], Cliff]:
    return lambda _: Cliff(round(100 * edge))


def test_a_certain_demand_gets_the_smallest_count_without_late_requests() -> None:
    assert cheapest_count([(1.0, 10.0)], 10.0, 20.0, cliff(0.5)) == pytest.approx(20.0, rel=0.1)


def test_lateness_cheaper_than_replicas_is_accepted() -> None:
    assert cheapest_count([(1.0, 10.0)], 10.0, 0.5, cliff(0.5)) == 10.0


def test_a_rare_rise_is_insured_against_only_at_a_price() -> None:
    demands = [(0.9, 5.0), (0.1, 15.0)]
    assert cheapest_count(demands, 6.0, 4.0, cliff(0.8)) < 8
    assert cheapest_count(demands, 6.0, 40.0, cliff(0.8)) == pytest.approx(18.75, rel=0.1)
