"""Curves of batches and of steps: finite and positive, rising where time is, whatever the counters say."""

from itertools import accumulate, pairwise
from math import inf, isfinite

from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective import serialize
from penstock_operator.decide.scaling.capacity_at_objective.capacity import (
    batch_curves,
    decode_capacity,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    BatchCurves,
    PodCurve,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import (
    CapacityModel,
    curve_in_use,
    model,
    off_curve,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_curves import (
    PodSteps,
    StepCurves,
    learn_steps,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import (
    AnswerSums,
    StepSums,
    parse_steps,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_time_fit import (
    fit as fit_step_times,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_time_fit import solve
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.polyline import Knot, polyline
from penstock_operator.decide.scaling.signals.aggregates import MeasuredService
from penstock_operator.decide.scaling.signals.counters import (
    SUMS,
    Counters,
    CurveSumsTuple,
    Point,
)
from penstock_operator.decide.scaling.signals.service_curve import (
    batch_seconds,
    batch_tail_seconds,
    fit,
    quantile,
    r_squared,
)
from penstock_operator.decide.scaling.utilization_band.batch_cap import step_size
from penstock_operator.observed import GenerationSample
from tests.unit.operator.decide.scaling.properties.holds import MEASURED, holds
from tests.unit.operator.decide.scaling.properties.values import (
    ALL_STEPS,
    ALL_SUMS,
    BATCH_SUMS,
    KNOTS,
    REAL_STEPS,
)

ROWS = st.one_of(st.integers(1, 4096).map(float), MEASURED)
POD = LawPod("a", ready=True, terminating=False, acknowledged=True, cap_bound=None)


def sound(*values: float | None) -> bool:
    return all(value is None or (isfinite(value) and value >= 0) for value in values)


@holds(sums=ALL_SUMS, rows=ROWS)
def test_a_fitted_line_rises_and_says_times_that_are_times(
    sums: CurveSumsTuple, rows: float
) -> None:
    line = fit(sums)
    if line is not None:
        assert line.a >= 0
        assert line.c > 0
        assert sound(line.slope_error, line.seconds(rows))
    assert sound(batch_seconds(sums, rows))
    explained = r_squared(sums)
    assert explained is None or 0 <= explained <= 1


@holds(sums=ALL_SUMS, rows=st.tuples(ROWS, ROWS))
def test_one_line_says_longer_times_for_larger_batches(
    sums: CurveSumsTuple, rows: tuple[float, float]
) -> None:
    line = fit(sums)
    if line is not None:
        less, more = (line.seconds(size) for size in sorted(rows))
        assert less is None or more is None or less <= more


@holds(warm_up=KNOTS, later=KNOTS, rows=st.tuples(ROWS, ROWS))
def test_a_polyline_says_longer_times_for_larger_batches(
    warm_up: list[Knot], later: list[Knot], rows: tuple[float, float]
) -> None:
    shape = polyline(warm_up, later)
    if shape is not None:
        assert all(low < high for low, high in pairwise(shape.rows))
        less, more = (shape.seconds(size) for size in sorted(rows))
        assert 0 < less <= more * (1 + 1e-9)


@holds(
    sums=st.lists(st.tuples(ALL_SUMS, ALL_SUMS), min_size=1, max_size=3), top=st.integers(1, 300)
)
def test_no_batch_up_to_the_top_has_more_capacity_than_the_most_productive(
    sums: list[tuple[CurveSumsTuple, CurveSumsTuple]], top: int
) -> None:
    curve_model = model(pods_of(*sums))
    if curve_model is not None and curve_model.shape is not None:
        capacities = [curve_model.capacity(rows) for rows in range(1, top + 1)]
        known = [capacity for capacity in capacities if capacity is not None]
        if len(known) == top:
            best = known[curve_model.most_productive(top) - 1]
            assert best >= max(known) * (1 - 1e-6)


BUCKETS = st.lists(MEASURED, min_size=1, max_size=12).map(
    lambda grown: tuple(
        zip((*(0.01 * 2**i for i in range(len(grown) - 1)), inf), accumulate(grown), strict=True)
    )
)


@holds(buckets=BUCKETS, shares=st.tuples(st.floats(0, 1), st.floats(0, 1)), sums=ALL_SUMS)
def test_quantiles_rise_and_stay_inside_their_buckets(
    buckets: tuple[tuple[float, float], ...], shares: tuple[float, float], sums: CurveSumsTuple
) -> None:
    low, high = (quantile(share, buckets) for share in sorted(shares))
    assert sound(low, high, batch_tail_seconds(buckets, sums))
    assert low is None or high is None or low <= high * (1 + 1e-9)


def pods_of(*sums: tuple[CurveSumsTuple, CurveSumsTuple]) -> list[PodCurve]:
    return [
        PodCurve(None, CurveSumsTuple(), 0.0, prior, data, batch_curves.proven_size(data))
        for prior, data in sums
    ]


@holds(
    sums=st.lists(st.tuples(ALL_SUMS, ALL_SUMS), min_size=1, max_size=4),
    rows=st.integers(1, 4096),
    limits=st.tuples(MEASURED, MEASURED),
    top=st.integers(1, 4096),
)
def test_a_model_says_times_and_capacities_that_are_some(
    sums: list[tuple[CurveSumsTuple, CurveSumsTuple]],
    rows: int,
    limits: tuple[float, float],
    top: int,
) -> None:
    curve_model = model(pods_of(*sums))
    if curve_model is not None:
        bears_questions(curve_model, rows)
        low, high = (curve_model.largest_within(limit, top) for limit in sorted(limits))
        assert 0 <= low <= high <= top


def bears_questions(curve_model: CapacityModel, rows: int) -> None:
    seconds, capacity = curve_model.seconds(rows), curve_model.capacity(rows)
    assert sound(seconds, capacity, curve_model.largest)
    assert 1 <= curve_model.tail_ratio <= 3
    assert 0 <= curve_model.intercept(rows) <= 1
    seen = curve_in_use(curve_model, rows)
    assert sound(seen.a, seen.c, seen.mean_rows, seen.largest_rows)
    served = MeasuredService(0.99, None, curve_model.sums, None, 0.0, 60.0)
    off = off_curve(None, served, curve_model)
    assert off is None or isfinite(off)


@holds(sums=BATCH_SUMS, rows=st.tuples(st.integers(1, 4096), st.integers(1, 4096)))
def test_a_models_capacity_rises_with_the_batch_where_one_line_says_both(
    sums: CurveSumsTuple, rows: tuple[int, int]
) -> None:
    line = fit(sums)
    curve_model = model(pods_of((CurveSumsTuple(), sums)))
    if line is not None and curve_model is not None and len(curve_model.lines) == 1:
        less, more = sorted(rows)
        if None not in (line.seconds(less), line.seconds(more)):
            assert (curve_model.capacity(less) or 0) <= (curve_model.capacity(more) or 0) * (
                1 + 1e-9
            )


def point(
    time: float, sums: CurveSumsTuple, steps: StepSums | None, epoch: int, completed: float
) -> Point:
    generation = (
        None if steps is None else GenerationSample(epoch, tuple(steps), tuple(steps), 0.0, 0.5)
    )
    counters: Counters = dict(zip(SUMS, sums[1:-1], strict=True))
    return Point(
        time,
        2.0,
        0.5,
        None,
        sums.epoch,
        {**counters, "completed": completed},
        3.0,
        generation,
        sums.by_size,
    )


@holds(
    samples=st.lists(st.tuples(ALL_SUMS, ALL_STEPS, st.integers(0, 2), MEASURED), max_size=12),
    adds=st.booleans(),
)
def test_what_pods_teach_is_finite_whatever_their_counters_do(
    samples: list[tuple[CurveSumsTuple, StepSums, int, float]], adds: bool
) -> None:
    """Counters that grow, fall, begin an epoch or jump; `adds`: they only grow."""
    known, learnt = BatchCurves(), StepCurves()
    total, whole = CurveSumsTuple(), StepSums()
    for at, (sums, steps, epoch, completed) in enumerate(samples):
        if adds:
            total = batch_curves.add_sums((total, sums))
            whole = StepSums(*(old + new for old, new in zip(whole, steps, strict=True)))
        window = (
            point(5.0 * at, total if adds else sums, whole if adds else steps, epoch, completed),
        )
        known = batch_curves.learn_batches(known, {"a": window}, (POD,))
        learnt = learn_steps(learnt, {"a": window}, (POD,))
    for pod_curve in known.pods.values():
        for sums in (pod_curve.prior, pod_curve.data):
            assert sound(*sums[:-1], *sums.by_size, pod_curve.largest)
    for each in learnt.pods.values():
        assert sound(*each.prior, *each.data, *each.answers, each.largest)
    for curve_model in (
        model(known.of_revision(None)),
        decode_capacity.decode_capacity(learnt.of_revision(None)),
    ):
        if curve_model is not None:
            bears_questions(curve_model, 7)
    initial = CapacityAtObjective().initial(0.0)
    data = serialize.to_checkpoint(initial._replace(step_curves=learnt))
    for past in serialize.from_checkpoint(initial, data, 0.0, 0.0).step_curves.gone.values():
        assert sound(*past.data, *past.answers, past.largest)
        assert list(past.data) == data["steps"]


def pod_steps(known: StepSums, answers: AnswerSums) -> PodSteps:
    return PodSteps(None, 0, StepSums(), 0.0, 0.0, StepSums(), known, answers, 8.0)


ANSWERS = st.builds(AnswerSums, *(MEASURED for _ in AnswerSums._fields))


@holds(steps=ALL_STEPS, other=ALL_STEPS)
def test_a_plane_has_no_negative_cost(steps: StepSums, other: StepSums) -> None:
    plane = fit_step_times(steps)
    if plane is not None:
        assert sound(plane.a, plane.p, plane.d, plane.k, plane.sigma)
        assert sound(plane.slope_error(1.0, 1.0), plane.predicted(other), plane.seconds(1, 1, 1))
        assert plane.r_squared is None or 0 <= plane.r_squared <= 1


@holds(steps=ALL_STEPS, answers=ANSWERS, rows=st.integers(1, 4096))
def test_a_pace_says_times_and_capacities_that_are_some(
    steps: StepSums, answers: AnswerSums, rows: int
) -> None:
    assert 1 <= decode_capacity.stretch(answers) <= decode_capacity.MAX_STRETCH
    curve_model = decode_capacity.decode_capacity([pod_steps(steps, answers)])
    if curve_model is not None:
        bears_questions(curve_model, rows)
        assert (curve_model.steps or 0) >= 1
        assert curve_model.max_rows >= 1


@holds(
    steps=REAL_STEPS,
    seconds=st.tuples(MEASURED, MEASURED),
    most=st.integers(1, 4096),
)
def test_the_first_rows_rise_with_the_time_of_a_step(
    steps: StepSums, seconds: tuple[float, float], most: int
) -> None:
    pods = [pod_steps(steps, AnswerSums())]
    few, many = (decode_capacity.initial_rows(pods, limit, most) for limit in sorted(seconds))
    assert 1 <= few <= many <= most == decode_capacity.initial_rows(pods, None, most)


@holds(values=st.lists(st.floats(), max_size=16))
def test_sums_of_steps_are_measurements_or_none(values: list[float]) -> None:
    steps = parse_steps(values)
    assert steps is None or sound(*steps)


@holds(
    gram=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=3, max_size=3),
    right=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3),
)
def test_a_system_is_solved_or_singular(gram: list[list[float]], right: list[float]) -> None:
    symmetric = [[gram[min(i, j)][max(i, j)] for j in range(3)] for i in range(3)]
    solution = solve(symmetric, right)
    assert solution is None or all(map(isfinite, solution))


@holds(cap=st.integers(1, 4096))
def test_a_step_of_the_cap_is_at_least_one_row(cap: int) -> None:
    assert 1 <= step_size(cap) <= cap
