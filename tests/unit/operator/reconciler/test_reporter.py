"""Metrics of a pool: gauges of its last decision, counters of growth, and no series of deleted pools."""

from collections.abc import Iterator

import pytest

from penstock_operator.decide.plan import PlanFigures, PoolPlan
from penstock_operator.reconcile_state import PoolState
from penstock_operator.reconciler import reporter
from penstock_operator.telemetry import metrics
from tests.unit.operator.decide.world import World, pod, settled

NAME = {"namespace": "team-a", "pool": "chat"}
FIGURES = PlanFigures(
    desired=2, granted=2, at_limit=False, signals_absent=False, contested=False, stalled=False, demand=10.0,
    forecast=12.0, forecast_error=-1.5, utilization=0.6, imbalance=1.1, startup_seconds=30.0,
    signal_age_seconds=2.0,
)  # fmt: skip


def value(name: str) -> float | None:
    sample: float | None = metrics.REGISTRY.get_sample_value(f"penstock_operator_{name}", NAME)
    return sample


@pytest.fixture(scope="module")
def plan() -> PoolPlan:
    return settled().run()


@pytest.fixture
def state() -> Iterator[PoolState]:
    pool_state = PoolState()
    yield pool_state
    reporter.forget_pool(pool_state)


def report(plan: PoolPlan, state: PoolState, **changes: object) -> None:
    figures = FIGURES._replace(**changes)  # type: ignore[arg-type]
    reporter.report_decision(plan._replace(figures=figures), World().view(), state)


def test_gauges_show_the_last_decision(plan: PoolPlan, state: PoolState) -> None:
    report(plan, state, desired=3, at_limit=True)
    assert value("replicas_wanted") == 3
    assert value("replicas_granted") == 2
    assert value("at_limit") == 1
    assert value("signals_absent") == 0
    assert value("forecast_error_rows_per_second") == -1.5
    assert value("effective_utilization_ratio") == 0.6


def test_serving_pods_without_acknowledgement_are_counted_and_loading_ones_are_not(
    state: PoolState,
) -> None:
    world = settled()
    world.pods = (*world.pods, pod("loading", ip="10.0.0.9", ready=False))
    plan = world.run()
    assert [push.pod_uid for push in plan.pushes] == ["uid-loading"]
    reporter.report_decision(plan, world.view(), state)
    assert value("unacknowledged_pods") == 0
    world.acknowledgements.clear()
    world.pods = (*world.pods, pod("leaving", ip="10.0.0.8", terminating=True))
    reporter.report_decision(plan, world.view(), state)
    assert value("unacknowledged_pods") == 1


def test_an_unknown_value_has_no_series(plan: PoolPlan, state: PoolState) -> None:
    report(plan, state)
    report(plan, state, utilization=None)
    assert value("effective_utilization_ratio") is None
    report(plan, state, utilization=0.5)
    assert value("effective_utilization_ratio") == 0.5


def test_requests_on_time_are_counted_from_the_first_visit(
    plan: PoolPlan, state: PoolState
) -> None:
    report(plan, state, objective_good=100.0, objective_total=110.0)
    assert (value("objective_good_total"), value("objective_requests_total")) == (0, 0)
    report(plan, state, objective_good=150.0, objective_total=170.0)
    assert (value("objective_good_total"), value("objective_requests_total")) == (50, 60)


def test_counters_do_not_fall_when_the_figures_restart(plan: PoolPlan, state: PoolState) -> None:
    report(plan, state, objective_total=100.0)
    report(plan, state, objective_total=130.0)
    report(plan, state, objective_total=0.0)
    assert value("objective_requests_total") == 30


def test_a_reversal_is_a_change_of_direction_of_the_count(plan: PoolPlan, state: PoolState) -> None:
    for granted in (2, 3, 4, 4, 3, 3, 2, 5):
        report(plan, state, granted=granted)
    assert value("reversals_total") == 2


def test_a_pool_that_is_created_again_keeps_its_series_when_the_deleted_one_is_forgotten(
    plan: PoolPlan, state: PoolState
) -> None:
    deleted = PoolState()
    report(plan, deleted, desired=2)
    report(plan, state, desired=3)
    reporter.forget_pool(deleted)
    assert value("replicas_wanted") == 3


def test_a_deleted_pool_has_no_series(plan: PoolPlan, state: PoolState) -> None:
    report(plan, state)
    reporter.forget_pool(state)
    remaining = [
        sample.name
        for family in metrics.REGISTRY.collect()
        for sample in family.samples
        if sample.labels.get("pool") == "chat"
    ]
    assert remaining == []
