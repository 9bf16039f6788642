"""Rows of unequal length: padding stays low and no request starves."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.dynamic.batch_former import Batch
from penstock_runtime.engine.messages import Submit
from penstock_runtime.engine.padding import (
    BUCKET_RATIO,
    MIN_BUCKET,
    bucket_of,
    length_buckets,
    runs,
)
from tests.unit.runtime.engine.dynamic.builders import (
    Doubling,
    FakeClock,
    a_request,
    an_engine,
    limits,
)


@given(st.integers(1, 8192))
def test_buckets_ascend_to_the_greatest_length_and_bound_the_padding(longest: int) -> None:
    buckets = length_buckets(longest)
    assert buckets[-1] == longest
    assert all(low < high for low, high in pairwise(buckets))
    for length in range(1, min(longest, 600)):
        bound = bucket_of(length, buckets)
        assert length <= bound
        assert bound <= max(MIN_BUCKET, length * BUCKET_RATIO)


@given(st.lists(st.integers(1, 512), min_size=1, max_size=80))
def test_every_row_runs_once_and_full_runs_are_nearly_all_text(lengths: list[int]) -> None:
    batches = runs(lengths, max_padding=0.1, min_tokens=512)
    assert sorted(row for run in batches for row in run) == list(range(len(lengths)))
    for run in batches:
        width = lengths[run[0]]
        assert width == max(lengths[row] for row in run)
        padded, text = width * len(run), sum(lengths[row] for row in run)
        if padded - width >= 512:
            assert padded - text <= 0.1 * padded


def test_rows_of_one_length_are_one_run() -> None:
    assert runs([7] * 200) == [list(range(200))]


def test_few_rows_are_not_split_to_save_little_padding() -> None:
    assert runs([9, 30, 12]) == [[1, 2, 0]]


def test_a_lone_length_in_a_flood_of_others_waits_no_longer_than_its_turn() -> None:
    """Twice as much arrives as can be served, all of it short; one text is long."""
    clock = FakeClock()
    engine = an_engine(
        Doubling(clock=clock, row_seconds=0.01),
        limits(cap=4, delay_milliseconds=20, discipline=Discipline.FIRST_IN_FIRST_OUT),
    )
    for step in range(100):
        short = [a_request(f"{step}-{n}", arrived=clock.now, shape="length 16") for n in range(8)]
        engine.take(Submit(tuple(short)), clock.now)
        if step == 3:
            engine.take(
                Submit((a_request("long", arrived=clock.now, shape="length 512"),)), clock.now
            )
            came, ahead = clock.now, engine.waiting
        placement = engine.plan(clock.now)
        assert isinstance(placement, Batch)
        ran = engine.run(placement, clock, lambda: None)
        engine.complete(ran)
        if "long" in (request.id for request in placement.requests):
            assert placement.rows == 1
            assert clock.now - came <= ahead * 0.01 + 0.03, "its window, and what came before it"
            return
    raise AssertionError("the long text starved")
