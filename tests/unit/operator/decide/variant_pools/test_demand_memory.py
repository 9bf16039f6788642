"""The demand of a pool with variants outlives a restart of the operator, in a checkpoint."""

import json
from dataclasses import replace

import pytest

from penstock_operator.decide.planning.parent import ParentState
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import INITIAL_PRICE
from penstock_operator.decide.scaling.checkpoint import FILE, INTERVAL_SECONDS
from penstock_operator.decide.variants.demand import PooledState
from penstock_operator.variants import BatchShape, VariantFigures, VariantLoad
from tests.unit.operator.decide.variant_pools.parent_world import ParentWorld, parent

SHAPE = BatchShape(cap=8, seconds=0.2, tail_ratio=1.05, intercept=0.4)
MEMORY = ("ConfigMap", "chat-penstock-memory")
TICKS = 200


def served() -> tuple[ParentWorld, int]:
    """Return a world after ticks of 50 rows/s of which a tenth is late, and the writes of its checkpoint."""
    world = parent(
        objectives=[{"metric": "RequestLatency", "milliseconds": 500}],
        scaling={"mode": "Auto", "maxReplicas": 8},
    )
    world.settle()
    writes = 0
    for tick in range(TICKS):
        load = VariantLoad(
            world.now, 50.0, 50.0, settled=250.0 * tick, on_time=225.0 * tick, serving=100.0
        )
        world.figures["chat-fast"] = VariantFigures(100.0, load, 4.0, 20.0, SHAPE)
        plan = world.settle()
        if plan.checkpoint is not None:
            world.store(plan.checkpoint)
            writes += 1
    return world, writes


def pooled(world: ParentWorld) -> PooledState:
    assert isinstance(world.state, ParentState)
    return world.state.counts.mix.pooled


def restarted(world: ParentWorld) -> PooledState:
    world.state, world.figures = None, {}
    world.run()
    return pooled(world)


def test_a_restart_keeps_forecast_errors_price_and_dispersion() -> None:
    world, _ = served()
    before = pooled(world)
    after = restarted(world)
    assert before.lateness.lateness_price > 1.5 * INITIAL_PRICE
    assert after.lateness.lateness_price == pytest.approx(before.lateness.lateness_price, rel=0.2)
    assert after.forecaster.level == pytest.approx(before.forecaster.level, rel=0.01)
    assert len(after.forecaster.errors.by) > 10
    assert after.dispersion == before.dispersion
    assert after.routed is before.routed is False


def test_it_is_written_seldom_and_only_if_something_changed() -> None:
    world, writes = served()
    assert 1 <= writes <= TICKS * 5.0 / INTERVAL_SECONDS
    for _ in range(60):
        assert world.settle().checkpoint is None


def test_nothing_is_stored_before_a_demand_is_known() -> None:
    world = parent(scaling={"mode": "Auto"})
    for _ in range(60):
        assert world.settle().checkpoint is None


def test_of_an_old_checkpoint_the_price_of_lateness_remains() -> None:
    world, _ = served()
    before = pooled(world)
    world.now += 7 * 3600
    after = restarted(world)
    assert (after.forecaster.time, after.dispersion) == (None, None)
    assert after.lateness.lateness_price == pytest.approx(before.lateness.lateness_price, abs=0.01)


@pytest.mark.parametrize("change", ["foreign", "garbage", "invalid"])
def test_a_checkpoint_that_does_not_apply_is_ignored(change: str) -> None:
    world, _ = served()
    live = world.children[MEMORY]
    stored = json.loads(live.manifest["data"][FILE])
    if change == "foreign":
        stored["algorithm"] = "UtilizationBand"
    elif change == "invalid":
        stored["data"]["level"] = -5
    text = "{" if change == "garbage" else json.dumps(stored)
    manifest = {**live.manifest, "data": {FILE: text}}
    world.children[MEMORY] = replace(live, manifest=manifest)
    after = restarted(world)
    assert after.forecaster.time is None
    assert after.lateness.lateness_price <= INITIAL_PRICE
