"""Decisions in the status: observations, the count of each term, the bound, and the cost of alternatives."""

from dataclasses import replace
from typing import Any

import pytest

from penstock_api.types.decision import AlternativeStatus, LastDecision, ScalingStatus
from penstock_operator.act.status import worth_writing
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.observed import PoolSignals, SignalSource
from tests.bench.decide.fleet import SPEC, signals
from tests.unit.operator.decide.scaling.test_checkpoint import ticks, working
from tests.unit.operator.decide.world import NO_SIGNALS, World, known, policy


def run(number: int = 12, **scaling: Any) -> tuple[World, PoolPlan]:
    world = working()
    world.edit_spec(scaling={**SPEC["scaling"], **scaling})
    return world, ticks(world, number)[-1]


def decided(plan: PoolPlan) -> tuple[ScalingStatus, LastDecision]:
    return known(plan.status.scaling), known(plan.status.last_decision)


def test_the_status_contains_every_input_of_the_law() -> None:
    _, plan = run()
    seen, _ = decided(plan)
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


def test_a_decision_lists_the_count_of_each_term() -> None:
    _, last = decided(run()[1])
    asked = {term.term: float(term.replicas) for term in known(last.asked)}
    assert "Forecast" in asked
    assert max(asked.values()) <= last.replicas + 1e-6


def test_cheaper_alternatives_have_a_higher_utilization() -> None:
    _, last = decided(run()[1])
    others = known(last.alternatives)
    mine = [alternative for alternative in others if alternative.replicas == last.replicas]
    assert mine
    same_cap = [
        alternative
        for alternative in others
        if alternative.cap == mine[0].cap or alternative.replicas != last.replicas
    ]
    by_count = sorted({alternative.replicas: alternative for alternative in same_cap}.items())
    assert len(by_count) == 3
    busy = [float(item.utilization_percent) for _, item in by_count]
    assert busy == sorted(busy, reverse=True)
    assert all(alternative.accelerators == alternative.replicas for alternative in others)


def test_the_verdict_is_saturated_where_demand_exceeds_capacity() -> None:
    def saturated(alternative: AlternativeStatus) -> bool:
        return float(alternative.utilization_percent) >= 100

    alternatives = known(decided(run(maxReplicas=2)[1])[1].alternatives)
    assert {saturated(alternative) for alternative in alternatives} == {True, False}
    for alternative in alternatives:
        assert saturated(alternative) == (alternative.verdict == "Saturated")
        assert (alternative.predicted_p99_milliseconds is None) >= saturated(alternative)


@pytest.mark.parametrize(("most", "policies", "bound"), [(2, (), "MaxReplicas"), (9, (2,), "Policy")])  # fmt: skip
def test_the_limit_of_the_count_is_named(most: int, policies: tuple[int, ...], bound: str) -> None:
    world = working()
    world.policies = tuple(policy("prod", bounds={"replicas": {"max": item}}) for item in policies)
    world.edit_spec(scaling={**SPEC["scaling"], "maxReplicas": most})
    plan = ticks(world, 12)[-1]
    assert known(plan.status.desired_replicas) == 2
    assert decided(plan)[0].bound_by == bound
    assert plan.figures.at_limit


def test_an_idle_pool_has_no_metric_of_its_imbalance() -> None:
    world, plan = run()
    assert known(plan.figures.imbalance) >= 1
    last = signals(0, world, world.now).samples
    for _ in range(30):
        shift = world.now - max(sample.time for sample in last)
        idle = (replace(last[-1], uid=each.uid, time=each.time + shift) for each in last)
        world.signals = PoolSignals(SignalSource.PROMETHEUS, tuple(idle), queried_at=world.now)
        plan = world.settle()
    assert plan.figures.demand == 0
    assert plan.figures.imbalance is None


def test_no_limit_is_named_where_none_binds() -> None:
    world, plan = run()
    assert decided(plan)[0].bound_by in (None, "Stabilization")
    assert not plan.figures.at_limit
    world.signals = NO_SIGNALS
    for _ in range(4):
        plan = world.settle()
    assert decided(plan)[0].bound_by == "Signals"
    assert plan.figures.signals_absent


def test_figures_inside_their_dead_band_are_not_worth_a_write() -> None:
    _, plan = run()
    stored = plan.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    curve = {**stored["scaling"]["curve"], "interceptMilliseconds": "101.00"}
    near = {**stored, "scaling": {**stored["scaling"], "curve": curve, "imbalance": "1.05"}}
    far = {
        **stored,
        "scaling": {**stored["scaling"], "curve": {**curve, "millisecondsPerRow": "15.0"}},
    }
    stored["scaling"]["imbalance"] = "1.00"
    far["scaling"]["imbalance"] = "1.00"
    assert not worth_writing(stored, near, 0.0, 61.0)
    assert worth_writing(stored, far, 0.0, 61.0)
    assert not worth_writing(stored, far, 0.0, 59.0)
