"""Simulated pools that share a budget for an hour and for a day: weights and floors apply, counts do not oscillate."""

from collections.abc import Sequence
from dataclasses import replace
from math import pi, sin

import numpy as np
import pytest

from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.scenario import ClientBehavior, ColdStarts, Scenario
from penstock_simulator.shared_budget import Tenant, share, turns
from tests.unit.simulator.scenarios import SETTINGS, world

SLOW = ServiceModel(a=2.0, c=0.5, sigma=0.05, tail_share=0.0, overhead=0.0)
"""1.5 requests a second per replica, so that a day has half a million requests."""
HOUR = 3600.0
DAY = 24 * HOUR


def scenario(seed: int, least: int, most: int) -> Scenario:
    settings = replace(
        SETTINGS, objective_milliseconds=20_000, min_replicas=least, max_replicas=most
    )
    return replace(
        world(1, service=SLOW, settings=settings),
        cold=ColdStarts(median_seconds=60.0, sigma=0.3, failing_share=0.0),
        clients=ClientBehavior(connections=64, timeout_seconds=60.0),
        max_queue_depth=64,
        seed=seed,
    )


def arrivals(seed: int, rates: Sequence[float], step: float) -> np.ndarray:
    """Poisson arrivals at `rates` requests a second, each for `step` seconds."""
    random = np.random.default_rng(seed)
    parts = []
    for index, rate in enumerate(rates):
        number = random.poisson(rate * step)
        parts.append(np.sort(random.uniform(index * step, (index + 1) * step, number)))
    return np.concatenate(parts)


def tenant(
    name: str,
    weight: int,
    rates: Sequence[float],
    step: float,
    *,
    least: int = 1,
    most: int = 6,
    draw: int = 0,
) -> Tenant:
    seed = sum(name.encode()) + 1000 * draw
    given = scenario(seed, least, most)
    return Tenant(name, weight, given, CapacityAtObjective(), arrivals(seed, rates, step))


def counts(tenant: Tenant, after: float, before: float) -> list[int]:
    return tenant.asked[int(after // 5) : int(before // 5)]


def shares(tenants: Sequence[Tenant], after: float, before: float) -> set[tuple[int, ...]]:
    return set(zip(*(counts(tenant, after, before) for tenant in tenants), strict=True))


def a_wave_and_two_others(
    first: float, seconds: float, draw: int = 0
) -> tuple[Tenant, Tenant, Tenant]:
    """A pool whose need follows the hour of the day, with `first` as its first second, and two of constant need."""
    steps = range(int(first / 300.0), int((first + seconds) / 300.0))
    wave = [2.6 + 2.2 * sin(2 * pi * step * 300.0 / DAY) for step in steps]
    return (
        tenant("waving", 100, wave, 300.0, draw=draw),
        tenant("steady", 100, [4.0] * len(steps), 300.0, draw=draw),
        tenant("floored", 1, [2.2] * len(steps), 300.0, draw=draw),
    )


def shared_four(floor: int, seconds: float) -> tuple[Tenant, Tenant]:
    """Let two pools that need four and three replicas share four by weights 3 and 1; `floor` is the light pool's.

    Neither serves its demand with its share, so both always request their maximum.
    """
    minutes = int(seconds / 60.0)
    heavy = tenant("heavy", 300, [4.6] * minutes, 60.0, most=4)
    light = tenant("light", 100, [3.4] * minutes, 60.0, least=floor, most=3)
    share((heavy, light), 4, seconds)
    return heavy, light


def assert_shared(heavy: Tenant, light: Tenant, division: tuple[int, int]) -> None:
    """Assert the division from the fifth minute on, without oscillation and with each device in use once."""
    wanted = zip(heavy.wanted[60:], light.wanted[60:], strict=True)
    assert {first + second for first, second in wanted} == {7}
    assert set(zip(heavy.asked[60:], light.asked[60:], strict=True)) == {division}
    assert max(map(sum, zip(heavy.used, light.used, strict=True))) <= 4
    assert turns(heavy.asked) + turns(light.asked) <= 1


DIVISIONS = pytest.mark.parametrize(
    ("floor", "division"), [(1, (3, 1)), (2, (2, 2))], ids=["by weight", "by weight above floors"]
)


@DIVISIONS
def test_a_budget_of_four_with_demand_for_seven_is_divided_by_weight(
    floor: int, division: tuple[int, int]
) -> None:
    assert_shared(*shared_four(floor, 30 * 60.0), division)


@pytest.mark.long
@pytest.mark.timeout(1800)
@DIVISIONS
def test_a_budget_of_four_with_demand_for_seven_stays_divided_for_a_day(
    floor: int, division: tuple[int, int]
) -> None:
    assert_shared(*shared_four(floor, DAY), division)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_over_a_day_shares_follow_need_and_weight() -> None:
    tenants = a_wave_and_two_others(0, DAY)
    share(tenants, 5, DAY)
    _, _, floored = tenants
    total = [sum(counts) for counts in zip(*(tenant.used for tenant in tenants), strict=True)]
    assert max(total) <= 5
    assert shares(tenants, 1 * HOUR, 15 * HOUR) == {(2, 2, 1)}, "by weight, the floor first"
    assert shares(tenants, 17 * HOUR, 20 * HOUR) == {(1, 3, 1)}, "the wave's spare replica"
    assert set(floored.asked) == {1}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_slow_crossing_of_shares_does_not_oscillate() -> None:
    """The need of the wave crosses its share for half an hour; a single draw of the arrivals says little of the law."""
    draws = range(8)
    first, seconds = 14.6 * HOUR, 1.7 * HOUR
    turned = []
    for draw in draws:
        waving, steady, floored = a_wave_and_two_others(first, seconds, draw)
        share((waving, steady, floored), 5, seconds)
        turned.append((turns(waving.asked[60:]), turns(steady.asked[60:])))
    for of_tenant in zip(*turned, strict=True):
        assert sum(of_tenant) <= 3 * len(draws), turned
