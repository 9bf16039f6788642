"""Backfill after a restart: samples of the last minutes rebuild the law's state."""

from dataclasses import replace

import pytest

from penstock_operator.decide.planner_state import PlannerState
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import expected_demand
from penstock_operator.decide.scaling.decision import ScalingState
from penstock_operator.observed import PodSample, PoolSignals, SignalSource
from tests.bench.decide.fleet import SPEC, TICK, signals
from tests.unit.operator.decide.test_checkpoint import NAME, law_state, ticks, working
from tests.unit.operator.decide.world import World, known


def backfill(world: World, seconds: float) -> PoolSignals:
    """Return the samples of the last seconds of `working`'s load, in arbitrary order."""
    rounds = [signals(0, world, world.now - back) for back in range(0, int(seconds), int(TICK))]
    samples = {(sample.uid, sample.time): sample for each in rounds for sample in each.samples}
    return PoolSignals(SignalSource.PROMETHEUS, tuple(samples.values()), queried_at=world.now)


def restarted(world: World, past: PoolSignals | None) -> None:
    """Run the first tick of an operator without state or checkpoint."""
    world.states.clear()
    world.children.pop(("ConfigMap", NAME), None)
    world.signals = signals(0, world, world.now)
    world.past = past
    world.settle()
    world.past = None


def test_demand_curve_and_traffic_are_known_at_the_first_tick() -> None:
    world = working()
    ticks(world, 60)
    before = law_state(world)
    restarted(world, backfill(world, 240))
    after = law_state(world)
    assert expected_demand(after.forecaster, 60) == pytest.approx(
        expected_demand(before.forecaster, 60), rel=0.15
    )
    seen = after.forecaster
    assert len(seen.pending) + len(seen.errors.latest) > 30
    assert after.unevenness == pytest.approx(before.unevenness, abs=0.05)
    assert all(pod.data.batches > 100 for pod in after.curves.pods.values())
    assert after.plan.cap == before.plan.cap
    assert after.count.begun == world.now - TICK


def test_without_a_past_the_forecast_begins_at_its_first_sample() -> None:
    world = working()
    ticks(world, 60)
    restarted(world, None)
    assert len(law_state(world).forecaster.pending) <= 1


def test_no_replica_is_removed_before_a_full_hold_after_it() -> None:
    world = working()
    ticks(world, 60)
    before = known(world.run().status.desired_replicas)
    restarted(world, backfill(world, 180))
    lowest = min(known(plan.status.desired_replicas) for plan in ticks(world, 20))
    assert lowest >= before


def test_samples_of_another_clock_are_ignored() -> None:
    world = working()
    ticks(world, 60)
    restarted(world, replace(backfill(world, 180), source=SignalSource.PODS))
    assert len(law_state(world).forecaster.pending) <= 1


@pytest.mark.parametrize("algorithm", ["CapacityAtObjective", "UtilizationBand"])
def test_invalid_samples_raise_nothing(algorithm: str) -> None:
    world = working()
    world.edit_spec(scaling={**SPEC["scaling"], "algorithm": algorithm})
    odd = (float("nan"), float("inf"), -1.0, 0.0, 1e308)
    samples = tuple(
        PodSample(world.pods[0].uid, time, waiting=value, rows_received=value)
        for time in (*odd, world.now - 30, world.now + 30)
        for value in odd
    )
    restarted(world, PoolSignals(SignalSource.PROMETHEUS, samples, queried_at=world.now))
    assert known(world.run().status.desired_replicas) >= 1


def test_the_first_law_has_whole_windows_at_once() -> None:
    world = working()
    world.edit_spec(scaling={**SPEC["scaling"], "algorithm": "UtilizationBand"})
    restarted(world, backfill(world, 180))
    state = world.states[world.pool.uid]
    assert isinstance(state, PlannerState)
    assert isinstance(state.scaling, ScalingState)
    assert {len(pod) for pod in state.scaling.law.windows.pods.values()} == {7}
