"""The work queue: when pools are visited, and how late."""

import asyncio
import math
from functools import partial

from penstock_operator.reconciler.workqueue import (
    DEBOUNCE_SECONDS,
    MAX_BATCH,
    MIN_BATCH,
    SPACING_SECONDS,
    WorkQueue,
    batch_size,
)

NOW = 100.0


def visit(queue: WorkQueue, now: float) -> list[str]:
    """Pop the pools that are due, and end their visits at once."""
    due = queue.pop(now)
    for uid in due:
        queue.done(uid)
    return due


def test_an_event_makes_a_pool_due_within_a_tenth_of_a_second() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)

    assert visit(queue, NOW) == []
    assert visit(queue, NOW + 0.1) == ["a"]
    assert visit(queue, NOW + 0.1) == []


def test_a_burst_of_events_does_not_delay_the_visit() -> None:
    queue = WorkQueue()
    for step in range(10):
        queue.add("a", NOW + step * 0.01)

    assert queue.next_at() == NOW + DEBOUNCE_SECONDS


def test_two_visits_keep_their_spacing_however_many_events_come() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    visit(queue, NOW + 1)
    queue.add("a", NOW + 1)

    assert queue.next_at() == NOW + 1 + SPACING_SECONDS


def test_an_event_brings_a_periodic_visit_forward_and_never_back() -> None:
    queue = WorkQueue()
    queue.schedule("a", NOW + 5)
    queue.add("a", NOW)
    queue.schedule("a", NOW + 9)

    assert queue.next_at() == NOW + DEBOUNCE_SECONDS


def test_resyncs_of_all_pools_fall_on_one_grid() -> None:
    queue = WorkQueue()
    queue.schedule_resync("a", 101.3, active=True)
    queue.schedule_resync("b", 104.9, active=True)
    queue.schedule_resync("c", 101.3, active=False)

    assert visit(queue, 105.0) == ["a", "b"]
    assert queue.next_at() == 120.0


def test_a_pool_that_is_being_visited_waits_for_the_visit_to_end() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    assert queue.pop(NOW + 1) == ["a"]
    queue.add("a", NOW + 1)

    assert queue.pop(NOW + 2) == []
    assert queue.next_at() == math.inf
    queue.done("a")
    assert queue.pop(NOW + 2) == ["a"]


async def test_a_wait_ends_when_a_pool_is_scheduled_or_done() -> None:
    queue = WorkQueue()
    await queue.wait(0.0)
    for change in (partial(queue.add, "a", NOW), partial(queue.done, "a")):
        waiting = asyncio.create_task(queue.wait(60.0))
        await asyncio.sleep(0)
        change()
        async with asyncio.timeout(10):
            await waiting


def test_a_deleted_pool_is_never_due() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    queue.forget("a")

    assert visit(queue, NOW + 99) == []


def test_lateness_is_the_time_beyond_the_pace() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    visit(queue, NOW + 0.1)
    queue.schedule_resync("a", NOW + 0.2, active=True)
    assert visit(queue, NOW + 5.0) == ["a"]
    assert list(queue.lateness) == [0.0]

    queue.schedule_resync("a", NOW + 12.0, active=True)
    assert visit(queue, NOW + 15.0) == ["a"]
    assert list(queue.lateness) == [5.0]


def test_an_event_and_a_first_visit_are_never_late() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    visit(queue, NOW + 60.0)
    assert list(queue.lateness) == []

    queue.schedule_resync("a", NOW + 60.0, active=False)
    queue.add("a", NOW + 61.0)
    visit(queue, NOW + 62.0)
    assert list(queue.lateness) == [0.0]


def test_back_off_and_standby_do_not_count_as_lateness() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    visit(queue, NOW + 1)
    queue.schedule_resync("a", NOW + 1, active=True)
    queue.requeue_after("a", NOW + 40)
    visit(queue, NOW + 60)
    assert list(queue.lateness) == []

    queue.schedule_resync("a", NOW + 60, active=True)
    queue.clear_paces()
    visit(queue, NOW + 100)
    assert list(queue.lateness) == []


def test_a_batch_is_as_large_as_half_a_second_of_deciding_allows() -> None:
    assert batch_size(50, pools=100, seconds=0.25) == 200
    assert batch_size(200, pools=200, seconds=8.0) == MIN_BATCH
    assert batch_size(50, pools=50, seconds=0.001) == MAX_BATCH


def test_a_small_pass_does_not_change_the_batch_size() -> None:
    assert batch_size(300, pools=1, seconds=0.125) == 300


def test_at_most_a_batch_is_popped_and_the_rest_stays_due() -> None:
    queue = WorkQueue()
    for number in range(2 * MIN_BATCH):
        queue.schedule(f"{number}", NOW)
    first = visit(queue, NOW)
    assert len(first) == MIN_BATCH

    queue.record_decide_time(MIN_BATCH, 0.01)
    rest = {f"{number}" for number in range(2 * MIN_BATCH)} - set(first)
    assert set(visit(queue, NOW)) == rest
