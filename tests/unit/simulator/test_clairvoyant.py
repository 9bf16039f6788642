"""The schedule that knows the trace: it attains, costs less than any fixed count, and starts pods in time."""

from dataclasses import replace

import numpy as np
import pytest

from penstock_simulator.arrivals import steps
from penstock_simulator.baselines.fixed import fixed
from penstock_simulator.clairvoyant import cheapest, clairvoyant, fluid_gpu_hours
from penstock_simulator.outcome import outcome
from penstock_simulator.simulation import simulate
from tests.unit.simulator.scenarios import EXACT, SETTINGS, world

SMALL = replace(SETTINGS, max_replicas=10)


def test_it_attains_between_the_fluid_bound_and_the_best_fixed_count() -> None:
    arrivals = steps([(150.0, 120.0), (400.0, 120.0), (150.0, 120.0)], seed=1)
    scenario = world(4, settings=SMALL)
    bound = clairvoyant(scenario, arrivals, caps=(32,), points=8)
    assert bound is not None
    assert bound.outcome.attainment >= 0.99
    attaining = [
        fixed_outcome.gpu_hours
        for count in range(6, 11, 2)
        if (fixed_outcome := outcome(simulate(world(count), fixed(count), arrivals))).attainment
        >= 0.99
    ]
    assert fluid_gpu_hours(scenario, len(arrivals)) < bound.outcome.gpu_hours < min(attaining)


def test_where_nothing_attains_there_is_no_schedule() -> None:
    arrivals = steps([(6 * EXACT.capacity(32), 20.0)], seed=1)
    tiny = replace(SETTINGS, max_replicas=2)
    assert clairvoyant(world(2, settings=tiny), arrivals, caps=(32,), points=2) is None


def test_a_short_peak_is_missed_where_starting_a_pod_costs_more_than_its_misses_may() -> None:
    table = np.array([[0.0, 0.0]] * 5 + [[6.0, 0.0]] + [[0.0, 0.0]] * 5)
    assert cheapest(world(), table, allowed=10.0) == (1,) * 11
    assert cheapest(world(), table, allowed=5.0) == (1,) * 5 + (2,) + (1,) * 5


@pytest.mark.parametrize("gap", [1, 4])
def test_a_pod_is_kept_over_a_gap_that_is_shorter_than_a_start(gap: int) -> None:
    """A start costs 60 s here, and a slot 30 s: one slot of idling is cheaper, four are not."""
    table = np.array([[9.0, 0.0]] + [[0.0, 0.0]] * gap + [[9.0, 0.0]])
    idle = 2 if gap == 1 else 1
    assert cheapest(world(), table, allowed=0.0) == (2, *(idle,) * gap, 2)
