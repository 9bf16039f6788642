"""When pools are visited."""

import math

from penstock_operator.workqueue import (
    DEBOUNCE_SECONDS,
    MAX_BATCH,
    MIN_BATCH,
    SPACING_SECONDS,
    WorkQueue,
    batch_size,
)

NOW = 100.0


def test_an_event_makes_a_pool_due_within_a_tenth_of_a_second() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)

    assert queue.pop(NOW, ()) == []
    assert queue.pop(NOW + 0.1, ()) == ["a"]
    assert queue.pop(NOW + 0.1, ()) == []


def test_a_burst_of_events_does_not_put_the_visit_off() -> None:
    queue = WorkQueue()
    for step in range(10):
        queue.add("a", NOW + step * 0.01)

    assert queue.next_at(()) == NOW + DEBOUNCE_SECONDS


def test_two_visits_keep_their_distance_however_many_events_come() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    queue.pop(NOW + 1, ())
    queue.add("a", NOW + 1)

    assert queue.next_at(()) == NOW + 1 + SPACING_SECONDS


def test_an_event_brings_a_ticking_pool_forward_and_never_back() -> None:
    queue = WorkQueue()
    queue.schedule("a", NOW + 5)
    queue.add("a", NOW)
    queue.schedule("a", NOW + 9)

    assert queue.next_at(()) == NOW + DEBOUNCE_SECONDS


def test_ticks_of_all_pools_fall_on_one_grid() -> None:
    queue = WorkQueue()
    queue.schedule_resync("a", 101.3, active=True)
    queue.schedule_resync("b", 104.9, active=True)
    queue.schedule_resync("c", 101.3, active=False)

    assert queue.pop(105.0, ()) == ["a", "b"]
    assert queue.next_at(()) == 120.0


def test_a_pool_that_is_being_visited_waits_for_the_visit_to_end() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)

    assert queue.pop(NOW + 1, {"a"}) == []
    assert queue.next_at({"a"}) == math.inf
    assert queue.pop(NOW + 1, ()) == ["a"]


def test_a_pool_that_is_gone_is_never_due() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    queue.forget("a")

    assert queue.pop(NOW + 99, ()) == []


def test_a_pool_is_late_by_what_passed_beyond_its_pace() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    queue.pop(NOW + 0.1, ())
    queue.schedule_resync("a", NOW + 0.2, active=True)
    assert queue.pop(NOW + 5.0, ()) == ["a"]
    assert list(queue.late) == [0.0]

    queue.schedule_resync("a", NOW + 12.0, active=True)
    assert queue.pop(NOW + 15.0, ()) == ["a"]
    assert list(queue.late) == [5.0]


def test_an_event_and_a_first_visit_are_never_late() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    queue.pop(NOW + 60.0, ())
    assert list(queue.late) == []

    queue.schedule_resync("a", NOW + 60.0, active=False)
    queue.add("a", NOW + 61.0)
    queue.pop(NOW + 62.0, ())
    assert list(queue.late) == [0.0]


def test_what_was_put_off_or_rested_is_not_late() -> None:
    queue = WorkQueue()
    queue.add("a", NOW)
    queue.pop(NOW + 1, ())
    queue.schedule_resync("a", NOW + 1, active=True)
    queue.requeue_after("a", NOW + 40)
    queue.pop(NOW + 60, ())
    assert list(queue.late) == []

    queue.schedule_resync("a", NOW + 60, active=True)
    queue.rest()
    queue.pop(NOW + 100, ())
    assert list(queue.late) == []


def test_a_batch_is_as_large_as_can_be_decided_on_in_half_a_second() -> None:
    assert batch_size(50, pools=100, seconds=0.25) == 200
    assert batch_size(200, pools=200, seconds=8.0) == MIN_BATCH
    assert batch_size(50, pools=50, seconds=0.001) == MAX_BATCH


def test_a_few_pools_say_nothing_of_how_long_many_take() -> None:
    assert batch_size(300, pools=1, seconds=0.125) == 300


def test_no_more_are_taken_than_a_batch_and_the_rest_stays_due() -> None:
    queue = WorkQueue()
    for number in range(2 * MIN_BATCH):
        queue.schedule(f"{number}", NOW)
    first = queue.pop(NOW, ())
    assert len(first) == MIN_BATCH

    queue.decided(MIN_BATCH, 0.01)
    assert set(queue.pop(NOW, ())) == {f"{one}" for one in range(2 * MIN_BATCH)} - set(first)
