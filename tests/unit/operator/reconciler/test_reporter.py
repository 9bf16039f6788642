"""Metrics of a pool: gauges of its last decision, counters of growth, and no series of what it does not decide."""

from collections.abc import Callable, Iterator

import pytest

from penstock_operator.decide.plan import PlanFigures, PoolPlan
from penstock_operator.observe.cluster.cache import Unreadable
from penstock_operator.observed import PoolView
from penstock_operator.reconcile_state import PoolState
from penstock_operator.reconciler import reporter
from penstock_operator.telemetry import metrics
from tests.unit.operator.decide.variant_pools.parent_world import automatic, measured, parent
from tests.unit.operator.decide.world import World, child, pod, settled

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
    assert series() == {}


def series() -> dict[str, float]:
    """Return the pool's series by name."""
    return {
        sample.name.removeprefix("penstock_operator_"): sample.value
        for family in metrics.REGISTRY.collect()
        for sample in family.samples
        if sample.labels.get("pool") == "chat"
    }


def blocked() -> tuple[PoolPlan, PoolView]:
    world = parent()
    world.children["Service", "chat"] = child("Service", "chat", owner="uid-foreign")
    return world.run(), world.view()


def exhausted() -> tuple[PoolPlan, PoolView]:
    world = automatic(maxReplicas=2)
    world.settle()
    measured(world, fast=100, slow=50, need=900)
    return world.run(), world.view()


@pytest.mark.parametrize(("case", "stalled", "at_limit"), [(blocked, 1, 0), (exhausted, 0, 1)])
def test_a_pool_with_variants_has_its_conditions_and_no_replicas_of_its_own(
    case: Callable[[], tuple[PoolPlan, PoolView]], stalled: int, at_limit: int, state: PoolState
) -> None:
    reporter.report_decision(*case(), state)
    exported = series()
    assert exported.pop("last_decision_timestamp_seconds") > 1.7e9
    assert exported == {"stalled": stalled, "at_limit": at_limit}


def unreadable() -> Unreadable:
    return Unreadable("uid-chat", "team-a", "chat", 2, "spec.scaling.mode", {}, False, {}, None)


@pytest.mark.parametrize("restarted", [False, True])
def test_of_a_pool_whose_spec_is_unreadable_only_stalled_is_exported(
    plan: PoolPlan, state: PoolState, restarted: bool
) -> None:
    if not restarted:
        report(plan, state, objective_total=100.0)
        report(plan, state, objective_total=130.0)
    reporter.set_unreadable_metrics(unreadable(), state)
    assert series() == {"stalled": 1}
    report(plan, state, objective_total=150.0)
    assert (value("stalled"), value("replicas_wanted")) == (0, 2)
    assert value("objective_requests_total") == 0, "counted again from the first decision"
