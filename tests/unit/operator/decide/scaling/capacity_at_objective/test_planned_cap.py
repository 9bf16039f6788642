"""Batch cap b* and bridge (docs/design/control-law.md#batch-cap): two batches fit the objective, and a backlog is worth longer ones."""

from dataclasses import replace

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import (
    BRIDGE_SECONDS,
    BatchPlan,
    PlanInput,
    cap_move,
    next_plan,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import CapacityModel
from penstock_operator.decide.scaling.reasons import CapReason
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.scaling.signals.service_curve import ServiceCurve
from tests.unit.operator.decide.scaling.world import SETTINGS

CURVE = CapacityModel((ServiceCurve(0.1, 0.01, 16, 0.0),), CurveSumsTuple(), 1.0, largest=64.0)
SEEN = PlanInput(
    settings=SETTINGS,
    model=CURVE,
    memory_bound=None,
    settled=True,
    settled_tail_seconds=None,
    starting=False,
    backlog_per_pod=0.0,
)


def planned(plan: BatchPlan | None = None, now: float = 1000.0, **changes: object) -> BatchPlan:
    return next_plan(plan or BatchPlan(), SEEN._replace(**changes), now)  # type: ignore[arg-type]


def objective(milliseconds: int | None) -> PlanInput:
    return SEEN._replace(settings=replace(SETTINGS, objective_milliseconds=milliseconds))


def test_the_first_known_curve_sets_the_cap_at_once() -> None:
    """((1 - 0.01) * 0.9 / 2 - 0.1) / 0.01 = 34.55"""
    plan = planned()
    assert (plan.cap, plan.term) == (34, CapReason.OBJECTIVE)


def test_noisy_batches_leave_less_room() -> None:
    noisy = CURVE._replace(tail_ratio=1.2)
    assert planned(model=noisy).cap == 27, "(0.4455 / 1.2 - 0.1) / 0.01"


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


def test_without_an_objective_a_backlog_is_bridged_with_all_that_is_allowed() -> None:
    busy = objective(None)._replace(starting=True, backlog_per_pod=1000.0)
    plan = next_plan(next_plan(BatchPlan(), objective(None), 0.0), busy, 5.0)
    assert (plan.cap, plan.bridge) == (36, 64)


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


def test_up_by_a_quarter_a_minute_and_only_after_all_acknowledged() -> None:
    plan, now = planned(now=0.0)._replace(cap=8), 0.0
    for expected in (10, 13, 17, 22, 28, 34, 34):
        now += 60
        assert planned(plan, now - 1).cap == plan.cap
        unacknowledged = planned(plan, now, settled=False)
        assert unacknowledged.cap == plan.cap
        plan = planned(plan, now)
        assert plan.cap == expected


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


def test_a_backlog_is_bridged_while_replicas_start() -> None:
    plan = planned()
    calm = planned(plan, 1005.0, starting=True, backlog_per_pod=20.0)
    assert calm.bridge is None, "what waits is served by the next batch"
    busy = SEEN._replace(starting=True, backlog_per_pod=400.0)
    plan = next_plan(plan, busy, 1010.0)
    assert cap_move(plan, busy).cap == 64, "sqrt(400 * 0.1 / 0.01) = 63.2"
    assert cap_move(plan, busy).term is CapReason.BRIDGE
    assert plan.cap == 34, "capacity is still planned with b*"
    plan = next_plan(plan, busy._replace(backlog_per_pod=0.0), 1015.0)
    assert plan.bridge == 64, "kept while they start: every change is pushed to every pod"
    plan = planned(plan, 1020.0)
    assert plan.bridge is None
    assert cap_move(plan, SEEN).cap == 34


def test_a_bridge_fits_one_batch_into_the_objective_and_memory() -> None:
    wide = replace(SETTINGS, size_max=512)
    seen = SEEN._replace(settings=wide, model=CURVE._replace(largest=512.0), starting=True)
    deep = seen._replace(backlog_per_pod=1e6)
    assert next_plan(planned(settings=wide), deep, 1005.0).bridge == 89, "(0.99 - 0.1) / 0.01"
    tight = deep._replace(memory_bound=40)
    assert next_plan(planned(settings=wide), tight, 1005.0).bridge == 40


def test_a_bridge_follows_the_limits_that_hold_now() -> None:
    busy = SEEN._replace(starting=True, backlog_per_pod=400.0)
    plan = next_plan(planned(), busy, 1010.0)
    assert plan.bridge == 64
    calm = busy._replace(backlog_per_pod=0.0)
    shrunk = next_plan(plan, calm._replace(memory_bound=50), 1015.0)
    assert cap_move(shrunk, calm).cap == 50, "memory ran out meanwhile"
    edited = calm._replace(settings=replace(SETTINGS, size_max=16))
    assert cap_move(next_plan(plan, edited, 1015.0), edited).cap == 16
    sooner = calm._replace(settings=replace(SETTINGS, objective_milliseconds=600))
    within = cap_move(next_plan(plan, sooner, 1015.0), sooner).cap
    assert within < 64, "one batch of 64 takes 740 ms"


def test_limits_that_move_hold_at_once_whatever_step_is_due() -> None:
    plan = planned()
    assert plan.cap == 34
    raised = replace(SETTINGS, size_min=60)
    assert planned(plan, 1001.0, settings=raised, settled=False).cap == 60
    lowered = replace(SETTINGS, size_max=33)
    assert planned(plan._replace(lowered=1000.0), 1001.0, settings=lowered).cap == 33
    assert planned(plan._replace(lowered=1000.0), 1001.0, memory_bound=33).cap == 33


def test_a_bridge_without_a_backlog_is_given_back_though_a_replica_never_starts() -> None:
    busy = SEEN._replace(starting=True, backlog_per_pod=400.0)
    plan = next_plan(planned(), busy, 1010.0)
    calm = busy._replace(backlog_per_pod=10.0)
    for seconds in (5.0, 29.0):
        assert next_plan(plan, calm, 1010.0 + seconds).bridge == 64
    plan = next_plan(plan, calm, 1010.0 + BRIDGE_SECONDS)
    assert plan.bridge is None
    assert next_plan(plan, busy, 1045.0).bridge == 64, "and comes again with the next backlog"


def test_the_bridge_is_no_reason_to_back_off() -> None:
    plan = planned()._replace(bridge=64)
    after = planned(plan, 1100.0, starting=True, backlog_per_pod=400.0, settled_tail_seconds=0.8)
    assert after.trust == 1.0
