"""Rows of a line of batch work: pods count rows and the batch service lines."""

from penstock_api.types.batch_work import BatchWorkSpec
from penstock_operator.decide.scaling.batch_work import batch_step
from penstock_operator.decide.scaling.decision import ScalingState
from penstock_operator.decide.scaling.line_rows import MIN_LINES, LineRows
from penstock_operator.observed import BatchLoad, PodSample
from tests.unit.operator.decide.scaling.test_batch_work import LAW, NOW, decision
from tests.unit.operator.decide.scaling.views import Pool

END = NOW + 3600


def samples(**rows: float) -> dict[str, PodSample]:
    return {uid: PodSample(uid, NOW, batch_served=count) for uid, count in rows.items()}


def loads(*lines: int) -> tuple[BatchLoad, ...]:
    return tuple(BatchLoad(left, NOW + number, END) for number, left in enumerate(lines))


def test_the_rows_of_answered_lines_are_measured_over_all_pods() -> None:
    rows = LineRows().after(samples(a=100, b=0), loads(1000))
    assert rows.per_line == 1.0, "nothing has been answered"
    rows = rows.after(samples(a=420, b=320), loads(990))
    assert rows.per_line == 64.0
    assert rows.after(samples(a=900, b=320), loads(990)) == rows, "the service was not read since"


def test_too_few_lines_and_lines_of_one_row_are_one() -> None:
    rows = LineRows().after(samples(a=0), loads(1000))
    few = rows.after(samples(a=500), loads(1000 - int(MIN_LINES) + 1))
    assert few.per_line == 1.0
    assert rows.after(samples(a=100), loads(800)).per_line == 1.0, "another pool answers too"


def test_a_round_in_which_a_batch_ends_or_begins_does_not_count() -> None:
    rows = LineRows().after(samples(a=0), loads(1000)).after(samples(a=80), loads(980))
    assert rows.per_line == 4.0
    rows = rows.after(samples(a=9000), loads(980, 50)).after(samples(a=9040), loads(975, 45))
    assert rows.per_line == 4.0
    assert rows.after(samples(), loads(970, 40)) == rows, "no pod was read"
    assert rows.after(samples(a=9999), None) == rows


def test_the_rows_of_a_pod_without_a_sample_count_when_it_has_one_again() -> None:
    rows = LineRows().after(samples(a=0, b=0), loads(1000))
    rows = rows.after(samples(a=80), loads(980)).after(samples(a=160, b=160), loads(960))
    assert rows.per_line == 8.0


def test_a_batch_that_ends_drops_the_counts_of_pods_without_a_sample() -> None:
    rows = LineRows().after(samples(a=0, b=0), loads(1000, 1))
    rows = rows.after(samples(a=80), loads(1000)).after(samples(a=160, b=9000), loads(980))
    assert (rows.per_line, set(rows.served)) == (4.0, {"a", "b"})


def test_later_lines_replace_earlier_ones() -> None:
    rows = LineRows().after(samples(a=0), loads(10_000)).after(samples(a=2000), loads(8000))
    for step in range(1, 7):
        rows = rows.after(samples(a=2000 + 64_000 * step), loads(8000 - 1000 * step))
    assert 60 < rows.per_line <= 64


def test_replicas_are_counted_in_rows() -> None:
    alone = decision(1, 1.0, 100.0)
    spec, work = BatchWorkSpec(max_replicas=8), (BatchLoad(36_000, NOW, END),)  # 10 lines/s
    known = (LineRows(), LineRows(640.0, 10.0))
    plans = [batch_step(alone, spec, LAW, rows.measured(work), NOW).batch_work for rows in known]
    assert [round(plan.replicas, 2) for plan in plans if plan] == [0.12, 7.53]


def test_a_pool_remembers_what_its_lines_have() -> None:
    pool = Pool()
    pool.tick(2)
    assert isinstance(pool.state, ScalingState)
    assert pool.state.line_rows == LineRows()
    pool.state = pool.state._replace(line_rows=LineRows(640.0, 10.0))
    pool.tick(3)
    assert pool.state.line_rows.per_line == 64.0
