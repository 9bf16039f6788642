"""Merging conditions: a transition time moves only when the status moves."""

import pytest
from pydantic import ValidationError

from penstock_api.conditions import Condition, ConditionStatus, condition, merge

BEFORE = "2026-01-01T00:00:00Z"
NOW = "2026-01-01T00:10:00Z"


def held(*conditions: Condition) -> tuple[Condition, ...]:
    return merge((), conditions, 1, BEFORE)


def test_a_new_condition_transitions_now() -> None:
    (merged,) = merge((), [condition("Ready", True, "Serving")], 3, NOW)
    assert merged == Condition(
        type="Ready",
        status=ConditionStatus.TRUE,
        reason="Serving",
        observed_generation=3,
        last_transition_time=NOW,
    )


def test_the_same_status_keeps_its_time_though_reason_and_message_change() -> None:
    before = held(condition("Ready", False, "NoPods"))
    (merged,) = merge(before, [condition("Ready", False, "Unschedulable", "no free GPU")], 2, NOW)
    assert merged.last_transition_time == BEFORE
    assert (merged.reason, merged.message, merged.observed_generation) == (
        "Unschedulable",
        "no free GPU",
        2,
    )


@pytest.mark.parametrize("status", [True, "Unknown"])
def test_another_status_moves_the_time(status: object) -> None:
    before = held(condition("Ready", False, "NoPods"))
    (merged,) = merge(before, [condition("Ready", status, "Now")], 1, NOW)  # type: ignore[arg-type]
    assert merged.last_transition_time == NOW


def test_the_wanted_order_counts_and_what_is_not_wanted_goes() -> None:
    before = held(
        condition("Gone", True, "Old"), condition("B", True, "Old"), condition("A", True, "Old")
    )
    merged = merge(before, [condition("A", True, "Is"), condition("B", True, "Is")], 1, NOW)
    assert [entry.type for entry in merged] == ["A", "B"]


def test_merging_twice_changes_nothing() -> None:
    wanted = [condition("Ready", True, "Serving"), condition("Scaling", "Unknown", "NotYet")]
    once = merge((), wanted, 4, BEFORE)
    assert merge(once, wanted, 4, NOW) == once


def test_a_long_message_is_cut_to_what_the_schema_holds() -> None:
    assert len(condition("Ready", False, "Broken", "x" * 5000).message) == 2048


@pytest.mark.parametrize("reason", ["", "not camel", "lower"])
def test_a_reason_is_always_a_camel_case_word(reason: str) -> None:
    with pytest.raises(ValidationError, match="reason"):
        condition("Ready", True, reason)
