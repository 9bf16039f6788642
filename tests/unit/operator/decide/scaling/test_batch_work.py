"""Batch work is demand without urgency: replicas for it come after all other demand, and within its own bound."""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.types.batch_work import BatchWorkSpec
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.decide.scaling.batch_work import MIN_SECONDS, batch_step, planned_rate
from penstock_operator.decide.scaling.law import Decision, LawObservations, ReplicaDemand
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import BatchLoad
from tests.bench.decide.fleet import SPEC
from tests.unit.operator.decide.scaling.test_checkpoint import ticks, working
from tests.unit.operator.decide.scaling.world import SETTINGS
from tests.unit.operator.decide.world import World, known, policy

NOW = 1_800_000_000.0
HOUR = 3600.0
LAW = replace(SETTINGS, min_replicas=1, max_replicas=20)
NO_OBSERVATIONS = LawObservations(*[None] * 8)
LOADS = st.builds(
    BatchLoad,
    st.integers(0, 10**9),
    st.floats(-1e300, 1e300),
    st.floats(-1e300, 1e300),
    st.floats(1.0, allow_nan=False),
)
SPECS = st.builds(
    BatchWorkSpec,
    max_replicas=st.none() | st.integers(0, 1000),
    deadline_seconds=st.none() | st.integers(60, 10**6),
)
COUNTS = st.floats(0, 1e6)
CAPACITIES = st.none() | st.floats(0, 1e15)


def decision(replicas: int, need: float | None, each: float | None) -> Decision:
    """Return a law's decision, whose one term needs `need` replicas that serve `each` rows a second."""
    return Decision(
        cap=8,
        replicas=replicas,
        cap_term="Objective",
        replicas_term="Forecast",
        observations=NO_OBSERVATIONS._replace(capacity_per_replica=each),
        metrics_available=True,
        demands=() if need is None else (ReplicaDemand("Forecast", need),),
    )


def planned(
    lines: int,
    *,
    replicas: int = 3,
    need: float = 2.5,
    most: int | None = 2,
    law: LawSettings = LAW,
    seconds: float = HOUR,
) -> Decision:
    """Return the decision with one batch of `lines`; a replica serves 10 rows a second."""
    spec = BatchWorkSpec(max_replicas=most)
    return batch_step(
        decision(replicas, need, 10.0), spec, law, (BatchLoad(lines, NOW, NOW + seconds),), NOW
    )


def test_the_rate_is_that_of_the_tightest_deadline_and_all_before_it() -> None:
    early, late = BatchLoad(3600, NOW, NOW + HOUR), BatchLoad(36_000, NOW, NOW + 10 * HOUR)
    assert planned_rate([early], None, NOW) == 1.0
    assert planned_rate([late, early], None, NOW) == pytest.approx(39_600 / (10 * HOUR))
    assert planned_rate([], None, NOW) == 0.0


def test_a_deadline_of_the_pool_counts_from_the_submission_and_only_shortens() -> None:
    batch = BatchLoad(3600, NOW - HOUR, NOW + 10 * HOUR)
    assert planned_rate([batch], int(2 * HOUR), NOW) == 1.0
    assert planned_rate([batch], int(100 * HOUR), NOW) == planned_rate([batch], None, NOW)


def test_a_batch_whose_time_is_over_is_planned_for_a_minute() -> None:
    assert planned_rate([BatchLoad(120, NOW - HOUR, NOW - 1)], None, NOW) == 120 / MIN_SECONDS


def test_batch_work_takes_what_other_demand_leaves_before_it_adds_replicas() -> None:
    small = planned(3600)  # 0.12 replicas, and half a replica is idle
    assert (small.replicas, small.replicas_term) == (3, "Forecast")
    assert known(small.batch_work).added == 0
    large = planned(36_000)  # 1.18 replicas
    assert (large.replicas, large.replicas_term) == (4, "BatchWork")
    assert large.replicas_why == (
        "36000 lines of batches need 10.0 lines/s to end in time, 1.2 replicas; 1 replica added to 3"
    )


def test_the_added_replicas_stay_within_batch_work_and_the_pools_own_maximum() -> None:
    assert planned(10**6).replicas == 5
    assert planned(10**6, most=None).replicas == 3
    assert planned(10**6, law=replace(LAW, max_replicas=4)).replicas == 4


def test_replicas_that_a_law_still_holds_are_not_added_to() -> None:
    more = planned(36_000, replicas=6)
    assert (more.replicas, more.replicas_term) == (6, "Forecast")
    kept = planned(36_000, replicas=4)  # as many as batch work needs: it keeps them
    assert (kept.replicas, kept.replicas_term) == (4, "BatchWork")


def test_nothing_is_planned_while_the_capacity_of_a_replica_is_unknown() -> None:
    batches = (BatchLoad(10**6, NOW, NOW + HOUR),)
    for unknown in (decision(3, None, 10.0), decision(3, 2.5, None), decision(3, 2.5, 0.0)):
        assert batch_step(unknown, BatchWorkSpec(max_replicas=2), LAW, batches, NOW) is unknown


def step(
    loads: Sequence[BatchLoad], spec: BatchWorkSpec | None, need: float | None, each: float | None
) -> Decision:
    replicas = 1 if need is None else max(1, min(int(need) + 1, LAW.max_replicas))
    return batch_step(decision(replicas, need, each), spec, LAW, tuple(loads), NOW)


@given(st.lists(LOADS, max_size=6), st.none() | SPECS, st.none() | COUNTS, CAPACITIES)
def test_any_input_gives_a_finite_plan_within_the_bounds(
    loads: list[BatchLoad],
    spec: BatchWorkSpec | None,
    need: float | None,
    each: float | None,
) -> None:
    before = step((), None, need, each)
    after = step(loads, spec, need, each)
    assert before.replicas <= after.replicas <= max(before.replicas, LAW.max_replicas)
    if spec is None or after.batch_work is None:
        assert after.replicas == before.replicas
    else:
        assert after.batch_work.added <= (spec.max_replicas or 0)
        assert isfinite(after.batch_work.rate)
        assert isfinite(after.batch_work.replicas)


@given(
    st.lists(LOADS, min_size=1, max_size=6),
    SPECS,
    COUNTS,
    st.floats(1e-3, 1e6),
    st.tuples(st.integers(0, 10**6), st.floats(0, 1e6)),
)
def test_more_work_or_less_time_never_takes_replicas_away(
    loads: list[BatchLoad],
    spec: BatchWorkSpec,
    need: float,
    each: float,
    harder: tuple[int, float],
) -> None:
    lines, earlier = harder
    before = step(loads, spec, need, each)
    first = loads[0]
    changed = first._replace(lines_left=first.lines_left + lines, expires=first.expires - earlier)
    after = step([changed, *loads[1:]], spec, need, each)
    assert after.replicas >= before.replicas
    assert known(after.batch_work).rate >= known(before.batch_work).rate


def with_batches(lines: int, **batch_work: Any) -> tuple[World, PoolPlan]:
    """Return a loaded pool after a minute with one batch that expires in an hour."""
    world = working()
    world.edit_spec(scaling=SPEC["scaling"], batchWork=batch_work)
    world.batches = (BatchLoad(lines, world.now, world.now + HOUR),)
    return world, ticks(world, 12)[-1]


def replicas_of(world: World) -> int:
    count = world.children["Deployment", "chat-penstock"].manifest["spec"]["replicas"]
    assert isinstance(count, int)
    return count


def test_a_pool_gets_the_replicas_and_reports_them() -> None:
    alone = replicas_of(with_batches(0)[0])
    world, plan = with_batches(10**6, maxReplicas=2)
    scaling = known(plan.status.scaling)
    assert replicas_of(world) == alone + 2
    assert scaling.replicas_term == "BatchWork"
    assert known(scaling.batch_work).added_replicas == 2
    assert known(scaling.batch_work).lines_left == 10**6
    world.batches = ()
    assert known(ticks(world, 2)[-1].status.scaling).batch_work is None


def test_a_pool_without_the_setting_gets_none() -> None:
    world, plan = with_batches(10**6)
    assert replicas_of(world) == replicas_of(with_batches(0)[0])
    assert known(known(plan.status.scaling).batch_work).added_replicas == 0


def test_a_budget_counts_the_replicas_of_batch_work() -> None:
    world = working()
    world.edit_spec(scaling=SPEC["scaling"], batchWork={"maxReplicas": 4})
    count = replicas_of(with_batches(0)[0]) + 1
    world.policies = (
        policy("budget", gpuBudgets=[{"resourceName": "nvidia.com/gpu", "count": count}]),
    )
    world.batches = (BatchLoad(10**6, world.now, world.now + HOUR),)
    plan = ticks(world, 12)[-1]
    assert replicas_of(world) == count
    assert known(plan.status.scaling).bound_by == "GpuBudget"
    (request,) = world.whole_plan().ledger.requests.values()
    assert request.requested > count >= request.need, "what batch work needs is no need"


def test_mode_manual_ignores_batch_work() -> None:
    world = working()
    world.edit_spec(scaling={"mode": "Manual"}, batchWork={"maxReplicas": 4})
    world.batches = (BatchLoad(10**6, world.now, world.now + HOUR),)
    ticks(world, 4)
    assert replicas_of(world) == SPEC["replicas"]
