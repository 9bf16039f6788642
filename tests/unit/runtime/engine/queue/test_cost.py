"""Forming a batch costs the same at 100 and at 10,000 waiting: counted, not timed."""

import gc
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.dynamic.batch_former import (
    ArrivalForecast,
    Batch,
    BatchLimits,
    form_batch,
)
from penstock_runtime.engine.queue.queue import WaitingRequests
from penstock_runtime.engine.service_time import UNKNOWN
from tests.unit.runtime.engine.dynamic.builders import a_request


class CountedFloat(float):
    """A number that counts how often it is compared."""

    comparisons = 0

    def __lt__(self, other: float) -> bool:
        CountedFloat.comparisons += 1
        return float.__lt__(self, other)

    def __eq__(self, other: object) -> bool:
        CountedFloat.comparisons += 1
        return float.__eq__(self, other)

    __hash__ = float.__hash__


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions, of Python or C, `work` calls."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # a collection calls its subscribers
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def queue_of(
    number: int, shapes: int, discipline: Discipline, time: type[float] = float
) -> WaitingRequests:
    queue = WaitingRequests(discipline)
    for n in range(number):
        queue.add(
            a_request(
                str(n),
                arrived=time(n),
                deadline=time(1e9 + n),
                shape=str(n % shapes),
            )
        )
    return queue


def batch_from(queue: WaitingRequests) -> None:
    placement = form_batch(queue, BatchLimits(8, 0.0), ArrivalForecast(UNKNOWN, 0.0), now=1e6)
    assert isinstance(placement, Batch)
    assert len(placement.requests) == 8


@pytest.mark.parametrize("discipline", list(Discipline))
@pytest.mark.parametrize("shapes", [1, 10])
def test_as_many_calls_whatever_waits(discipline: Discipline, shapes: int) -> None:
    few, many = (queue_of(number, shapes, discipline) for number in (100, 10_000))
    assert calls_of(lambda: batch_from(many)) == calls_of(lambda: batch_from(few))


def test_with_a_shape_for_each_request_the_calls_are_as_many() -> None:
    def one_batch(queue: WaitingRequests) -> None:
        assert isinstance(
            form_batch(queue, BatchLimits(8, 0.0), ArrivalForecast(UNKNOWN, 0.0), 1e6), Batch
        )

    few, many = (
        queue_of(number, number, Discipline.FIRST_IN_FIRST_OUT) for number in (100, 10_000)
    )
    assert calls_of(lambda: one_batch(many)) == calls_of(lambda: one_batch(few))


def test_comparisons_grow_no_faster_than_the_logarithm() -> None:
    counted = []
    for number in (100, 10_000):
        queue = queue_of(number, 1, Discipline.FIRST_IN_FIRST_OUT, CountedFloat)
        CountedFloat.comparisons = 0
        batch_from(queue)
        counted.append(CountedFloat.comparisons)
    few, many = counted
    assert many <= 2.2 * few  # log2(10,000) / log2(100) is 2
