"""When pools are visited."""

import math

from penstock_operator.due import DEBOUNCE_SECONDS, SPACING_SECONDS, DueQueue

NOW = 100.0


def test_an_event_makes_a_pool_due_within_a_tenth_of_a_second() -> None:
    queue = DueQueue()
    queue.notify("a", NOW)

    assert queue.take(NOW, ()) == []
    assert queue.take(NOW + 0.1, ()) == ["a"]
    assert queue.take(NOW + 0.1, ()) == []


def test_a_burst_of_events_does_not_put_the_visit_off() -> None:
    queue = DueQueue()
    for step in range(10):
        queue.notify("a", NOW + step * 0.01)

    assert queue.next_at(()) == NOW + DEBOUNCE_SECONDS


def test_two_visits_keep_their_distance_however_many_events_come() -> None:
    queue = DueQueue()
    queue.notify("a", NOW)
    queue.take(NOW + 1, ())
    queue.notify("a", NOW + 1)

    assert queue.next_at(()) == NOW + 1 + SPACING_SECONDS


def test_an_event_brings_a_ticking_pool_forward_and_never_back() -> None:
    queue = DueQueue()
    queue.schedule("a", NOW + 5)
    queue.notify("a", NOW)
    queue.schedule("a", NOW + 9)

    assert queue.next_at(()) == NOW + DEBOUNCE_SECONDS


def test_ticks_of_all_pools_fall_on_one_grid() -> None:
    queue = DueQueue()
    queue.next_tick("a", 101.3, active=True)
    queue.next_tick("b", 104.9, active=True)
    queue.next_tick("c", 101.3, active=False)

    assert queue.take(105.0, ()) == ["a", "b"]
    assert queue.next_at(()) == 120.0


def test_a_pool_that_is_being_visited_waits_for_the_visit_to_end() -> None:
    queue = DueQueue()
    queue.notify("a", NOW)

    assert queue.take(NOW + 1, {"a"}) == []
    assert queue.next_at({"a"}) == math.inf
    assert queue.take(NOW + 1, ()) == ["a"]


def test_a_pool_that_is_gone_is_never_due() -> None:
    queue = DueQueue()
    queue.notify("a", NOW)
    queue.forget("a")

    assert queue.take(NOW + 99, ()) == []


def test_a_pool_is_late_by_what_passed_beyond_its_pace() -> None:
    queue = DueQueue()
    queue.notify("a", NOW)
    queue.take(NOW + 0.1, ())
    queue.next_tick("a", NOW + 0.2, active=True)
    assert queue.take(NOW + 5.0, ()) == ["a"]
    assert list(queue.late) == [0.0]

    queue.next_tick("a", NOW + 12.0, active=True)
    assert queue.take(NOW + 15.0, ()) == ["a"]
    assert list(queue.late) == [5.0]


def test_an_event_and_a_first_visit_are_never_late() -> None:
    queue = DueQueue()
    queue.notify("a", NOW)
    queue.take(NOW + 60.0, ())
    assert list(queue.late) == []

    queue.next_tick("a", NOW + 60.0, active=False)
    queue.notify("a", NOW + 61.0)
    queue.take(NOW + 62.0, ())
    assert list(queue.late) == [0.0]


def test_what_was_put_off_or_rested_is_not_late() -> None:
    queue = DueQueue()
    queue.notify("a", NOW)
    queue.take(NOW + 1, ())
    queue.next_tick("a", NOW + 1, active=True)
    queue.put_off("a", NOW + 40)
    queue.take(NOW + 60, ())
    assert list(queue.late) == []

    queue.next_tick("a", NOW + 60, active=True)
    queue.rest()
    queue.take(NOW + 100, ())
    assert list(queue.late) == []
