"""Start-up is measured, and demand is forecast exactly that far; headroom is learned from the misses."""

from itertools import pairwise
from random import Random

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import (
    MAX_SECONDS,
    STUCK_SECONDS,
    Startup,
    p90_seconds,
    watch,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand import forecast
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import (
    DemandSample,
    Forecaster,
)
from penstock_operator.decide.scaling.law import LawPod


def pod(uid: str, ready_since: float | None = None, bound: float | None = 1000.0) -> LawPod:
    return LawPod(
        uid,
        ready=ready_since is not None,
        terminating=False,
        acknowledged=True,
        cap_bound=None,
        scheduled_since=bound,
        ready_since=ready_since,
    )


def started(*seconds: float) -> Startup:
    known = Startup()
    for i, took in enumerate(seconds):
        known = watch(known, [pod(f"pod-{i}")], 1000.0)
        known = watch(known, [pod(f"pod-{i}", 1000.0 + took)], 1000.0 + took + 3)
    return known


def test_before_any_start_the_prior_stands() -> None:
    assert p90_seconds(Startup(), 1000.0) == pytest.approx(120)


def test_few_starts_move_the_prior_and_many_replace_it() -> None:
    few, some = p90_seconds(started(20.0), 0.0), p90_seconds(started(*[20.0] * 5), 0.0)
    assert 20 < some < few < 120
    assert p90_seconds(started(*[20.0] * 11, 50.0), 0.0) == 20
    assert p90_seconds(started(*[20.0] * 10, 50.0, 50.0), 0.0) == 50


def test_a_start_that_takes_long_counts_while_it_runs() -> None:
    known = watch(started(*[20.0] * 10), [pod("slow")], 1000.0)
    assert p90_seconds(known, 1010.0) == 20
    known = watch(known, [pod("slow"), pod("slower")], 1001.0)
    assert p90_seconds(known, 1400.0) == pytest.approx(400)


def test_waiting_for_a_node_is_no_start_up() -> None:
    known = watch(Startup(), [pod("a", bound=None)], 1000.0)
    assert known.running == {}
    known = watch(known, [pod("a", bound=2000.0)], 2000.0)
    known = watch(known, [pod("a", 2030.0, bound=2000.0)], 2030.0)
    assert known.finished == (30.0,)


def test_a_pod_that_is_ready_again_started_nothing() -> None:
    known = watch(Startup(), [pod("a", 1020.0)], 1020.0)
    known = watch(known, [pod("a")], 5000.0)
    known = watch(known, [pod("a", 9000.0)], 9000.0)
    assert known.finished == ()


def test_a_pod_first_seen_long_after_its_binding_is_no_start() -> None:
    """An operator just begun meets pods of days ago that are not Ready for a while: they may have served before."""
    known = watch(Startup(), [pod("a")], 5000.0)
    assert p90_seconds(known, 5000.0) == pytest.approx(120)
    known = watch(known, [pod("a")], 5060.0)
    known = watch(known, [pod("a", 9000.0)], 9000.0)
    assert known.finished == ()


def test_a_long_start_that_was_met_at_once_counts_when_it_ends() -> None:
    known = watch(Startup(), [pod("a")], 1055.0)
    for now in (1400.0, 1700.0):
        known = watch(known, [pod("a")], now)
    assert p90_seconds(known, 1600.0) > 300
    assert watch(known, [pod("a", 1900.0)], 1900.0).finished == (900.0,)


def test_a_start_that_takes_longer_than_any_known_one_is_stuck_and_counts_no_more() -> None:
    known = watch(Startup(), [pod("a")], 1000.0)
    assert p90_seconds(known, 1000.0 + STUCK_SECONDS) > 300
    assert p90_seconds(known, 1001.0 + STUCK_SECONDS) == pytest.approx(120)


def test_where_starts_take_long_one_more_may_take_longer_still() -> None:
    known = watch(started(*[700.0] * 10), [pod("slow")], 1000.0)
    assert p90_seconds(known, 2990.0) == 700
    known = watch(known, [pod("slow"), pod("slower")], 1000.0)
    assert p90_seconds(known, 3100.0) == MAX_SECONDS
    assert p90_seconds(known, 3101.0) == 700


@pytest.mark.parametrize("failing", [True, False])
def test_a_pod_with_a_problem_is_no_start_to_wait_for(failing: bool) -> None:
    known = watch(Startup(), [pod("a")], 1000.0)
    known = watch(known, [pod("a")._replace(failing=failing)], 1300.0)
    assert (p90_seconds(known, 1300.0) > 130) is not failing
    assert watch(known, [pod("a", 1400.0)], 1400.0).finished == (400.0,)


def story(rates: list[float], horizon: float = 60.0) -> Forecaster:
    known = Forecaster()
    for i, rate in enumerate(rates):
        sample = DemandSample(rate, rate)
        known, _ = forecast.advance(known, sample, horizon, 1000.0 + 5 * i)
    return known


def test_the_noise_of_rates_that_overlap_is_not_underestimated() -> None:
    """Prometheus scrapes each pod at a moment of its own, so each value has half of the requests of the one before."""
    chance, noise = Random(1), dict[bool, float]()  # noqa: S311 - a story, not a secret
    arrivals = [chance.gauss(100.0, 10.0) for _ in range(2001)]
    for overlapping in (False, True):
        known = Forecaster()
        for i, (early, late) in enumerate(pairwise(arrivals)):
            rate = (early + late) / 2
            sample = DemandSample(rate, rate, overlapping=overlapping)
            known, _ = forecast.advance(known, sample, 60.0, 1000.0 + 5 * i)
        noise[overlapping] = known.noise or 0.0
    assert noise[True] > 2 * noise[False]


def test_steady_demand_is_forecast_as_it_is_and_its_headroom_is_unlearned() -> None:
    known = story([100.0] * 200)
    assert forecast.outlook(known, 60.0).expected == pytest.approx(100)
    assert forecast.outlook(known, 60.0).upper == pytest.approx(100, rel=0.01)


def test_forecasts_from_the_first_few_samples_are_not_judged() -> None:
    """A pool just met, at a third of its usual load for 10 s: that says nothing about later forecasts."""
    met = story([100.0] * 2 + [300.0] * 60)
    assert max(abs(error.by) for error in met.errors.latest) < 100
    late = story([100.0] * 20 + [300.0] * 60)
    assert max(error.by for error in late.errors.latest) > 150, (
        "a forecast made from enough is judged"
    )


def test_a_trend_is_followed_and_damped() -> None:
    known = story([100.0 + i for i in range(100)])
    near, far = forecast.outlook(known, 30.0).expected, forecast.outlook(known, 600.0).expected
    assert known.level < near < far
    assert far < known.level * (1 + forecast.MAX_TREND) + 1e-9


def test_a_significant_ramp_is_extrapolated_for_a_minute() -> None:
    known = story([100.0, 101.0, 99.0] * 20 + [100.0 + 10 * i for i in range(1, 9)])
    slope, sure = forecast.ramp(known)
    assert slope == pytest.approx(2.0, rel=0.05)
    assert sure > 0.9
    assert forecast.climb(known, 60.0) == pytest.approx(120.0, rel=0.1)
    assert forecast.climb(known, 600.0) == pytest.approx(forecast.climb(known, 60.0), rel=0.1)


def test_a_slope_that_chance_explains_is_no_ramp() -> None:
    known = story([100.0, 160.0, 60.0, 120.0, 40.0] * 20 + [100.0, 110.0, 120.0, 130.0])
    assert forecast.ramp(known)[1] == 0.0


def test_falling_demand_is_no_ramp() -> None:
    assert forecast.ramp(story([1000.0 - 10 * i for i in range(60)])) == (0.0, 0.0)


def test_traffic_that_returns_to_its_mean_is_not_chased_and_traffic_that_stays_is() -> None:
    returning = story([100.0, 100.0, 300.0, 300.0] * 360, horizon=10.0)
    assert forecast.persistence(returning) < 0.7
    assert forecast.outlook(returning, 10.0).expected < returning.level
    staying = story([100.0] * 300 + [300.0] * 300, horizon=10.0)
    assert forecast.persistence(staying) > 0.9


def test_demand_never_falls_below_nothing() -> None:
    assert forecast.outlook(story([1000.0 - 10 * i for i in range(100)]), 600.0).expected >= 0


def test_headroom_is_learned_from_misses_at_just_this_distance() -> None:
    wild = [100.0 * (1.5 if i // 30 % 2 else 1.0) for i in range(400)]
    low, high = story(wild[:385]), story(wild)
    assert forecast.outlook(low, 60.0).upper > 1.1 * forecast.outlook(low, 60.0).expected
    assert forecast.outlook(high, 60.0).upper < 1.1 * forecast.outlook(high, 60.0).expected, (
        "it never rose further"
    )


def test_forecasts_that_nothing_came_to_judge_are_forgotten() -> None:
    known = story([100.0] * 20)
    later, _ = forecast.advance(known, DemandSample(1.0, 1.0), 60.0, 9000.0)
    assert later.errors == known.errors


def test_a_step_beyond_chance_is_followed_at_once_and_noise_is_not() -> None:
    step = story([100.0, 101.0, 99.0] * 30 + [300.0])
    assert step.level > 250
    noisy = story([100.0, 160.0, 60.0, 120.0, 40.0] * 20 + [160.0])
    assert noisy.level < 130
