"""Both valves: a count and a cap inside their bounds, and moved the right way, whatever they are decided from."""

from dataclasses import replace
from math import inf, isfinite

from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective import batch_cap
from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import BatchPlan, PlanInput
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import CapacityModel
from penstock_operator.decide.scaling.capacity_at_objective.demand.load import PoolDemand
from penstock_operator.decide.scaling.capacity_at_objective.replicas import (
    Count,
    CountInput,
    hold_seconds,
    largest_need,
    needs,
    next_count,
    record_need,
    utilization,
)
from penstock_operator.decide.scaling.signals.aggregates import MeasuredDemand, MeasuredService
from penstock_operator.decide.scaling.signals.service_curve import ServiceCurve
from penstock_operator.decide.scaling.utilization_band.batch_cap import (
    CapInput,
    batch_target_seconds,
    clamp_cap,
    next_cap,
    predicted_seconds,
)
from penstock_operator.decide.scaling.utilization_band.replicas import (
    ReplicasInput,
    clamp_replicas,
    is_spare,
    next_replicas,
)
from penstock_operator.decide.spec.law_settings import LawSettings
from tests.unit.operator.decide.scaling.properties.holds import CAPS, MEASURED, holds
from tests.unit.operator.decide.scaling.properties.values import (
    ALL_SUMS,
    BATCH_SUMS,
    SETTINGS,
    SHAPES,
)

COUNTS = st.integers(0, 10_000)
MAYBE = st.one_of(st.none(), MEASURED)
POSITIVE = MEASURED.filter(bool)
COUNT_INPUT = st.builds(
    CountInput,
    settings=SETTINGS,
    replicas=COUNTS,
    unmeasured=COUNTS,
    waiting=MEASURED,
    load=st.builds(PoolDemand, MAYBE, MAYBE, MEASURED, MAYBE, MAYBE, MAYBE),
    imbalance=st.floats(1, 10_000),
    forecast=MEASURED,
    capacity_each=POSITIVE,
    capacity_ready=MEASURED,
    utilization_target=st.floats(1e-6, 5),
    startup_seconds=st.floats(1, 1800),
    next_batch=MEASURED,
    spare_seconds=st.one_of(st.none(), st.floats(0, 4e4)),
    uneven=st.floats(1, 10_000),
)


@holds(seen=COUNT_INPUT, more=st.floats(0, 1e6))
def test_needs_are_counts_and_rise_with_demand(seen: CountInput, more: float) -> None:
    for need in needs(seen):
        assert 0 <= need.exact <= 1e6
        assert need.replicas <= need.with_margin
    assert utilization(seen) >= 0
    recent = (seen.load.recent or 0.0) + more
    load = seen.load._replace(recent=recent, backlog=seen.load.backlog + more)
    risen = seen._replace(load=load, forecast=seen.forecast + more, waiting=seen.waiting + more)
    assert largest_need(needs(risen)).exact >= largest_need(needs(seen)).exact * (1 - 1e-9)
    assert utilization(risen) >= utilization(seen)


@holds(seen=COUNT_INPUT, asked=st.lists(st.tuples(st.floats(0, 60), COUNTS), max_size=20))
def test_the_next_count_is_inside_its_bounds_and_never_under_what_is_needed(
    seen: CountInput, asked: list[tuple[float, int]]
) -> None:
    count, now, settings = Count(begun=1000.0), 1000.0, seen.settings
    hold = hold_seconds(settings, seen.startup_seconds)
    assert hold >= 0
    for passed, number in asked:
        now += passed
        count = record_need(count, number, hold, now)
        falling = [most for _, most in count.needs]
        assert falling == sorted(falling, reverse=True)
        assert falling[-1] == number
    need = largest_need(needs(seen))
    move = next_count(record_need(count, need.with_margin, hold, now), seen, need, now)
    assert clamp_replicas(move.replicas, settings) == move.replicas
    assert move.hold_until is None or isfinite(move.hold_until)
    if move.replicas < min(seen.replicas, settings.max_replicas):
        assert move.replicas >= min(need.replicas, settings.max_replicas)
        assert now - 1000.0 >= hold


LINES = st.lists(st.builds(ServiceCurve, MEASURED, POSITIVE, MEASURED, MEASURED), max_size=3).map(
    tuple
)
MODELS = st.builds(
    CapacityModel,
    lines=LINES,
    sums=BATCH_SUMS,
    tail_ratio=st.floats(1, 3),
    largest=MEASURED,
    steps=st.one_of(st.none(), st.floats(1, 1e5)),
    max_rows=st.one_of(st.just(inf), st.floats(1, 1e4)),
    shape=SHAPES,
)
PLAN_INPUT = st.builds(
    PlanInput,
    settings=SETTINGS,
    model=MODELS,
    memory_bound=st.one_of(st.none(), CAPS),
    settled_tail_seconds=MAYBE,
)


@holds(seen=st.lists(st.tuples(st.floats(0, 120), PLAN_INPUT), min_size=1, max_size=8))
def test_the_planned_cap_is_inside_its_range(seen: list[tuple[float, PlanInput]]) -> None:
    plan, now = BatchPlan(), 1000.0
    for passed, inputs in seen:
        now += passed
        plan = batch_cap.next_plan(plan, inputs, now)
        move = batch_cap.cap_move(plan, inputs)
        settings, bound = inputs.settings, inputs.memory_bound
        assert clamp_cap(move.cap, settings) == move.cap
        assert bound is None or move.cap <= max(bound, settings.size_min)
        assert batch_cap.MIN_TRUST <= plan.trust <= 1
        assert move.why


@holds(
    seen=PLAN_INPUT, milliseconds=st.tuples(st.integers(1, 36_000_000), st.integers(1, 36_000_000))
)
def test_a_longer_objective_never_asks_for_a_smaller_cap(
    seen: PlanInput, milliseconds: tuple[int, int]
) -> None:
    caps = []
    for objective in sorted(milliseconds):
        settings = replace(
            seen.settings, objective_milliseconds=objective, output_token_milliseconds=None
        )
        longest = batch_cap.max_batch_seconds(settings, seen.model.steps)
        wait = batch_cap.max_wait_seconds(settings, seen.model.steps)
        assert longest is not None
        assert longest >= 0
        assert wait is not None
        assert wait >= 0
        caps.append(batch_cap.best_cap(seen._replace(settings=settings), 1.0)[0])
    assert caps[0] <= caps[1]


SERVICE = st.builds(
    MeasuredService,
    duty=st.one_of(st.none(), st.floats(0, 1)),
    duty_source=st.none(),
    sums=st.one_of(st.none(), ALL_SUMS.filter(lambda sums: sums.batches > 0)),
    batch_tail_seconds=MAYBE,
    out_of_memory_splits=MEASURED,
)


@holds(
    settings=SETTINGS,
    cap=CAPS,
    bound=st.one_of(st.none(), CAPS),
    waiting=MAYBE,
    service=SERVICE,
)
def test_one_step_of_the_cap_stays_inside_its_range(
    settings: LawSettings,
    cap: int,
    bound: int | None,
    waiting: float | None,
    service: MeasuredService,
) -> None:
    clamped = clamp_cap(cap, settings)
    seen = CapInput(settings, clamped, bound, waiting, service)
    move = next_cap(seen)
    assert clamp_cap(move.cap, settings) == move.cap
    assert bound is None or move.cap <= max(clamped, bound)
    predicted, target = predicted_seconds(seen, clamped + 1), batch_target_seconds(settings)
    assert predicted is None or (isfinite(predicted) and predicted >= 0)
    if move.cap > clamped and target is not None:
        reached = predicted_seconds(seen, move.cap)
        assert reached is not None
        assert reached <= target


DEMAND = st.builds(MeasuredDemand, COUNTS, COUNTS, COUNTS, COUNTS, MAYBE, MAYBE, MAYBE, MAYBE)


REPLICAS_INPUT = st.builds(
    ReplicasInput,
    settings=SETTINGS,
    replicas=COUNTS,
    cap=CAPS,
    demand=DEMAND,
    sums=st.one_of(st.none(), ALL_SUMS),
    spare_since=st.one_of(st.none(), st.floats(0, 5000)),
    downs=st.lists(st.tuples(st.floats(4940, 5000), st.integers(1, 3)), max_size=5)
    .map(sorted)
    .map(tuple),
)


@holds(seen=REPLICAS_INPUT)
def test_the_first_laws_count_is_inside_its_bounds_and_goes_down_by_one(
    seen: ReplicasInput,
) -> None:
    assert is_spare(seen) in {True, False}
    move = next_replicas(seen, 5000.0)
    assert clamp_replicas(move.replicas, seen.settings) == move.replicas
    assert move.replicas >= min(seen.replicas - 1, seen.settings.max_replicas)
    assert move.hold_until is None or isfinite(move.hold_until)
