"""Who may take the Lease, and for how long a renewal allows writes."""

from dataclasses import replace

from penstock_operator.lease import (
    DEADLINE_SECONDS,
    DURATION_SECONDS,
    Held,
    may_take,
    next_transitions,
    still_valid,
)

HELD = Held(holder="a", transitions=3, duration_seconds=15, version="7", unchanged_since=100.0)


def test_the_holder_may_renew() -> None:
    assert may_take(HELD, "a", 100.0)


def test_a_lease_that_was_given_back_is_free_at_once() -> None:
    assert may_take(replace(HELD, holder=""), "b", 100.0)


def test_another_waits_until_the_lease_has_not_changed_for_its_duration() -> None:
    assert not may_take(HELD, "b", 114.9)
    assert may_take(HELD, "b", 115.0)


def test_transitions_count_changes_of_holder_and_not_renewals() -> None:
    assert next_transitions(HELD, "a") == 3
    assert next_transitions(HELD, "b") == 4
    assert next_transitions(replace(HELD, holder=""), "a") == 4


def test_a_renewal_allows_writes_until_its_deadline_and_no_longer() -> None:
    assert not still_valid(None, 100.0)
    assert still_valid(100.0, 109.9)
    assert not still_valid(100.0, 110.0)


def test_the_holder_stops_writing_well_before_another_may_begin() -> None:
    assert DURATION_SECONDS - DEADLINE_SECONDS >= 5
