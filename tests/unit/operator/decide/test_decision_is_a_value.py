"""A decision tells what was seen, what each term asked for, what bound it, and what its neighbours would have cost."""

from typing import Any

import pytest

from penstock_api.types.decision import AlternativeStatus, LastDecision, ScalingStatus
from penstock_operator.act.status import worth_writing
from penstock_operator.decide.plan import PoolPlan
from tests.bench.decide.fleet import SPEC
from tests.unit.operator.decide.test_checkpoint import ticks, working
from tests.unit.operator.decide.world import NO_SIGNALS, World, known, policy


def run(number: int = 12, **scaling: Any) -> tuple[World, PoolPlan]:
    world = working()
    world.edit_spec(scaling={**SPEC["scaling"], **scaling})
    return world, ticks(world, number)[-1]


def told(plan: PoolPlan) -> tuple[ScalingStatus, LastDecision]:
    return known(plan.status.scaling), known(plan.status.last_decision)


def test_the_status_tells_everything_that_the_law_reckoned_with() -> None:
    _, plan = run()
    seen, _ = told(plan)
    curve = known(seen.curve)
    assert float(curve.intercept_milliseconds) == pytest.approx(100, rel=0.05)
    assert float(curve.milliseconds_per_row) == pytest.approx(10, rel=0.05)
    assert float(known(curve.r_squared)) > 0.95
    assert float(curve.mean_rows) == pytest.approx(16, abs=1)
    cap, each = known(seen.planned_cap), float(known(seen.rows_per_second_per_replica))
    assert each == pytest.approx(cap / (0.1 + 0.01 * cap), rel=0.05)
    rate, busy = (
        float(known(seen.rows_per_second)),
        float(known(seen.effective_utilization_percent)),
    )
    assert busy == pytest.approx(100 * rate / (3 * each), rel=0.15)
    assert float(known(seen.startup_p90_seconds)) > 0
    assert float(known(seen.forecast_rows_per_second)) > 0
    assert seen.replicas_term
    assert seen.cap_term


def test_a_decision_lists_what_each_term_asked_for() -> None:
    _, last = told(run()[1])
    asked = {one.term: float(one.replicas) for one in known(last.asked)}
    assert {"Forecast", "Demand", "Backlog"} <= set(asked)
    assert max(asked.values()) <= last.replicas + 1e-6


def test_alternatives_cost_devices_and_the_poorer_ones_are_busier() -> None:
    _, last = told(run()[1])
    others = known(last.alternatives)
    mine = [one for one in others if one.replicas == last.replicas]
    assert mine
    same_cap = [one for one in others if one.cap == mine[0].cap or one.replicas != last.replicas]
    by_count = sorted({one.replicas: one for one in same_cap}.items())
    assert len(by_count) == 3
    busy = [float(one.utilization_percent) for _, one in by_count]
    assert busy == sorted(busy, reverse=True)
    assert all(one.accelerators == one.replicas for one in others)


def test_saturated_is_said_where_demand_is_over_capacity() -> None:
    def saturated(one: AlternativeStatus) -> bool:
        return float(one.utilization_percent) >= 100

    _, last = told(run()[1])
    for one in known(last.alternatives):
        assert saturated(one) == (one.verdict == "Saturated")
        assert (one.predicted_p99_milliseconds is None) >= saturated(one)


@pytest.mark.parametrize(("most", "policies", "bound"), [(2, (), "MaxReplicas"), (9, (2,), "Policy")])  # fmt: skip
def test_what_holds_the_count_back_is_named(
    most: int, policies: tuple[int, ...], bound: str
) -> None:
    world = working()
    world.policies = tuple(policy("prod", bounds={"replicas": {"max": one}}) for one in policies)
    world.edit_spec(scaling={**SPEC["scaling"], "maxReplicas": most})
    plan = ticks(world, 12)[-1]
    assert known(plan.status.desired_replicas) == 2
    assert told(plan)[0].bound_by == bound
    assert plan.figures.at_limit


def test_nothing_is_named_where_nothing_holds_it_back() -> None:
    world, plan = run()
    assert told(plan)[0].bound_by in (None, "Stabilization")
    assert not plan.figures.at_limit
    world.signals = NO_SIGNALS
    for _ in range(4):
        plan = world.settle()
    assert told(plan)[0].bound_by == "Signals"
    assert plan.figures.signals_absent


def test_figures_inside_their_dead_band_are_not_worth_a_write() -> None:
    _, plan = run()
    held = plan.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    curve = {**held["scaling"]["curve"], "interceptMilliseconds": "101.00"}
    near = {**held, "scaling": {**held["scaling"], "curve": curve, "imbalance": "1.05"}}
    far = {**held, "scaling": {**held["scaling"], "curve": {**curve, "millisecondsPerRow": "15.0"}}}
    held["scaling"]["imbalance"] = "1.00"
    far["scaling"]["imbalance"] = "1.00"
    assert not worth_writing(held, near, 0.0, 61.0)
    assert worth_writing(held, far, 0.0, 61.0)
    assert not worth_writing(held, far, 0.0, 59.0)
