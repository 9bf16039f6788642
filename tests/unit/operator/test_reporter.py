"""Metrics of a pool: gauges of its last decision, counters of what grew since, nothing of pools that are gone."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock_operator import reporter
from penstock_operator.decide.plan import PlanFigures, PoolPlan
from penstock_operator.reconcile_state import PoolState
from penstock_operator.telemetry import metrics
from tests.unit.operator.decide.world import World, pod, settled

NAME = {"namespace": "team-a", "pool": "chat"}
FIGURES = PlanFigures(
    desired=2, granted=2, at_limit=False, signals_absent=False, contested=False, demand=10.0,
    forecast=12.0, forecast_error=-1.5, utilization=0.6, imbalance=1.1, startup_seconds=30.0,
    signal_age_seconds=2.0,
)  # fmt: skip


def value(name: str) -> float | None:
    found: float | None = metrics.REGISTRY.get_sample_value(f"penstock_operator_{name}", NAME)
    return found


@pytest.fixture(scope="module")
def plan() -> PoolPlan:
    return settled().run()


@pytest.fixture
def memory() -> Iterator[PoolState]:
    made = PoolState()
    yield made
    reporter.forget_pool(made)


def tell(plan: PoolPlan, memory: PoolState, **changes: object) -> None:
    figures = replace(FIGURES, **changes)  # type: ignore[arg-type]
    reporter.report_decision(replace(plan, figures=figures), World().view(), memory)


def test_gauges_say_what_was_decided(plan: PoolPlan, memory: PoolState) -> None:
    tell(plan, memory, wanted=3, at_limit=True)
    assert value("replicas_wanted") == 3
    assert value("replicas_granted") == 2
    assert value("at_limit") == 1
    assert value("signals_absent") == 0
    assert value("forecast_error_rows_per_second") == -1.5
    assert value("effective_utilization_ratio") == 0.6


def test_pods_that_serve_and_do_not_obey_are_counted_and_loading_ones_are_not(
    memory: PoolState,
) -> None:
    world = settled()
    world.pods = (*world.pods, pod("loading", ip="10.0.0.9", ready=False))
    plan = world.run()
    assert [push.pod_uid for push in plan.pushes] == ["uid-loading"]
    reporter.report_decision(plan, world.view(), memory)
    assert value("unacknowledged_pods") == 0
    world.acknowledgements.clear()
    world.pods = (*world.pods, pod("leaving", ip="10.0.0.8", terminating=True))
    reporter.report_decision(plan, world.view(), memory)
    assert value("unacknowledged_pods") == 1


def test_what_is_not_known_has_no_series(plan: PoolPlan, memory: PoolState) -> None:
    tell(plan, memory)
    tell(plan, memory, utilization=None)
    assert value("effective_utilization_ratio") is None
    tell(plan, memory, utilization=0.5)
    assert value("effective_utilization_ratio") == 0.5


def test_requests_on_time_are_counted_from_when_the_pool_was_met(
    plan: PoolPlan, memory: PoolState
) -> None:
    tell(plan, memory, objective_good=100.0, objective_total=110.0)
    assert (value("objective_good_total"), value("objective_requests_total")) == (0, 0)
    tell(plan, memory, objective_good=150.0, objective_total=170.0)
    assert (value("objective_good_total"), value("objective_requests_total")) == (50, 60)


def test_counters_never_fall_when_the_counting_begins_anew(
    plan: PoolPlan, memory: PoolState
) -> None:
    tell(plan, memory, objective_total=100.0)
    tell(plan, memory, objective_total=130.0)
    tell(plan, memory, objective_total=0.0)
    assert value("objective_requests_total") == 30


def test_a_turn_of_the_count_is_a_reversal_and_a_step_onward_is_none(
    plan: PoolPlan, memory: PoolState
) -> None:
    for granted in (2, 3, 4, 4, 3, 3, 2, 5):
        tell(plan, memory, granted=granted)
    assert value("reversals_total") == 2


def test_a_pool_that_is_gone_leaves_no_series(plan: PoolPlan, memory: PoolState) -> None:
    tell(plan, memory)
    reporter.forget_pool(memory)
    left = [
        sample.name
        for family in metrics.REGISTRY.collect()
        for sample in family.samples
        if sample.labels.get("pool") == "chat"
    ]
    assert left == []
