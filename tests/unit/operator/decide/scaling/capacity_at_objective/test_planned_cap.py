"""Batch cap b* (docs/design/control-law.md#batch-cap): the largest batch of which two fit the objective."""

from dataclasses import replace

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import (
    BatchPlan,
    PlanInput,
    cap_move,
    next_plan,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import CapacityModel
from penstock_operator.decide.scaling.polyline import Polyline
from penstock_operator.decide.scaling.reasons import CapReason
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.scaling.signals.service_curve import ServiceCurve
from tests.unit.operator.decide.scaling.world import SETTINGS

CURVE = CapacityModel((ServiceCurve(0.1, 0.01, 16, 0.0),), CurveSumsTuple(), 1.0, largest=64.0)
SEEN = PlanInput(
    settings=SETTINGS,
    model=CURVE,
    memory_bound=None,
    settled_tail_seconds=None,
)


def planned(plan: BatchPlan | None = None, now: float = 1000.0, **changes: object) -> BatchPlan:
    return next_plan(plan or BatchPlan(), SEEN._replace(**changes), now)  # type: ignore[arg-type]


def objective(milliseconds: int | None) -> PlanInput:
    return SEEN._replace(settings=replace(SETTINGS, objective_milliseconds=milliseconds))


def test_the_first_known_curve_sets_the_cap_at_once() -> None:
    """((1 - 0.01) * 0.9 / 2 - 0.1) / 0.01 = 34.55"""
    plan = planned()
    assert (plan.cap, plan.term) == (34, CapReason.OBJECTIVE)


def test_two_batches_of_typical_time_fit_however_noisy_their_times_are() -> None:
    noisy = CURVE._replace(tail_ratio=1.2)
    plan = planned(model=noisy)
    assert plan.cap == 34
    expected_tail = 1.2 * 0.44
    plan = planned(plan, 100.0, model=noisy, settled_tail_seconds=expected_tail)
    assert (plan.cap, plan.term) == (34, CapReason.OBJECTIVE)
    plan = planned(plan, 200.0, model=noisy, settled_tail_seconds=1.2 * expected_tail)
    assert (plan.cap, plan.term) == (30, CapReason.BACK_OFF)


FLAT_TO_A_KNEE = Polyline((1.0, 16.0, 32.0), (0.1, 0.1, 0.26))


def test_batches_beyond_the_knee_that_serve_less_are_not_planned() -> None:
    """160 rows/s at 16 rows, 123 at 32."""
    seen = SEEN._replace(model=CURVE._replace(shape=FLAT_TO_A_KNEE))
    plan = next_plan(BatchPlan(), seen, 0.0)
    assert (plan.cap, plan.term) == (16, CapReason.KNEE)
    assert "16 rows" in cap_move(plan, seen).why
    steep = seen._replace(settings=replace(SETTINGS, objective_milliseconds=150))
    assert next_plan(BatchPlan(), steep, 0.0).term is CapReason.OBJECTIVE_INFEASIBLE
    free = objective(None)._replace(model=seen.model)
    assert next_plan(BatchPlan(), free, 0.0).cap == 15, "144 rows/s are 90 % of 160"
    backed = seen._replace(settled_tail_seconds=0.6)
    assert next_plan(BatchPlan(), backed, 1000.0).cap == 16


def test_without_an_objective_the_cap_is_the_least_that_serves_nearly_all_that_the_largest_would() -> (
    None
):
    """0.9 * 64 / 0.74 = 77.8 rows/s, and 36 / 0.46 = 78.3"""
    seen = objective(None)
    plan = next_plan(BatchPlan(), seen, 0.0)
    assert (plan.cap, plan.term) == (36, CapReason.KNEE)
    assert "90 %" in cap_move(plan, seen).why
    dear = seen._replace(model=CURVE._replace(lines=(ServiceCurve(0.002, 0.05, 16, 0.0),)))
    assert next_plan(BatchPlan(), dear, 0.0).cap == 1, (
        "larger batches cost no less per row, so no request waits"
    )
    cheap = seen._replace(model=CURVE._replace(lines=(ServiceCurve(5.0, 0.01, 16, 0.0),)))
    assert next_plan(BatchPlan(), cheap, 0.0).cap == 57
    floor = seen._replace(settings=replace(seen.settings, size_min=48))
    assert next_plan(BatchPlan(), floor, 0.0).cap == 48


def test_without_an_objective_nor_a_slope_the_cap_is_all_that_is_allowed() -> None:
    flat = CapacityModel(
        (), CurveSumsTuple(0, 10.0, 160.0, 2560.0, 3.0, 48.0, 0.9), 1.0, largest=64.0
    )
    plan = next_plan(BatchPlan(), objective(None)._replace(model=flat), 0.0)
    assert (plan.cap, plan.term) == (64, CapReason.SIZE_MAX)


def test_an_objective_below_one_row_is_infeasible() -> None:
    plan = next_plan(BatchPlan(), objective(150), 0.0)
    assert (plan.cap, plan.term) == (1, CapReason.OBJECTIVE_INFEASIBLE)
    assert "150 ms" in cap_move(plan, objective(150)).why


@pytest.mark.parametrize(
    ("bound", "term"), [(20, CapReason.MEMORY_BOUND), (40, CapReason.OBJECTIVE)]
)
def test_memory_bounds_the_plan(bound: int, term: CapReason) -> None:
    plan = planned(memory_bound=bound)
    assert (plan.cap, plan.term) == (min(bound, 34), term)


def test_never_beyond_a_quarter_more_than_the_largest_batch_measured() -> None:
    plan = planned(model=CURVE._replace(largest=16.0))
    assert (plan.cap, plan.term) == (20, CapReason.MEASURED_RANGE)


def test_small_changes_of_the_fit_do_not_lower_the_cap() -> None:
    plan = planned()
    slower = CURVE._replace(lines=(ServiceCurve(0.11, 0.01, 16, 0.0),))
    assert planned(plan, model=slower).cap == 34
    slower = CURVE._replace(lines=(ServiceCurve(0.15, 0.01, 16, 0.0),))
    assert planned(plan, model=slower).cap == 29


def test_batch_time_over_half_the_objective_backs_off_once_a_window() -> None:
    plan = planned(now=1000.0)
    plan = planned(plan, 1100.0, settled_tail_seconds=0.6)
    assert (plan.cap, plan.term) == (30, CapReason.BACK_OFF)
    assert planned(plan, 1120.0, settled_tail_seconds=0.6).cap == 30
    plan = planned(plan, 1130.0, settled_tail_seconds=0.6)
    assert plan.cap == 27
    for minute in range(1, 12):
        plan = planned(plan, 1130.0 + 61 * minute, settled_tail_seconds=0.3)
    assert plan.cap == 34, "trust returns with good batches"


def test_the_cap_follows_the_curve_at_once() -> None:
    plan = planned(model=CURVE._replace(largest=16.0))
    assert plan.cap == 20
    assert planned(plan, 1005.0).cap == 34


def test_limits_that_move_hold_at_once_inside_the_dead_band() -> None:
    plan = planned()
    assert plan.cap == 34
    assert planned(plan, 1001.0, settings=replace(SETTINGS, size_min=60)).cap == 60
    assert planned(plan, 1001.0, settings=replace(SETTINGS, size_max=33)).cap == 33
    assert planned(plan, 1001.0, memory_bound=33).cap == 33
