"""Rolled-back settings over a restart: an unrelated edit puts them on trial again, and does not accept them."""

from dataclasses import replace

import pytest

from penstock_operator.decide.rollback.record import read_record
from tests.unit.operator.decide.rollback.test_rollback import (
    BAD,
    GOOD,
    WINDOW,
    Measured,
    edited,
    measured_pool,
)
from tests.unit.operator.decide.world import known, message


def unrelated(case: Measured) -> Measured:
    """Edit another field, while the spec keeps the rolled-back value."""
    return edited(case, 0.7, batching={**BAD["batching"], "maxQueueDepth": 64})


@pytest.mark.parametrize("windows", [2, 5])
def test_an_unrelated_edit_after_a_restart_is_on_trial(windows: int) -> None:
    case = edited(edited(measured_pool(), 0.7, **BAD).run(WINDOW + 15), 1.0).run(windows * WINDOW)
    accepted = known(read_record(case.world.kept)).accepted
    unrelated(case.restart()).run(5)
    assert "the settings are on trial" in message(case.world.run(), "PolicyApplied")
    assert known(read_record(case.world.kept)).accepted == accepted
    case.run(WINDOW + 30)
    assert (case.cap, case.condition()) == (16, "False/SetAside")


def test_a_rollback_without_enough_requests_keeps_the_last_reference() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(WINDOW + 15)
    case.rate = 0.1
    edited(case, 1.0).run(5 * WINDOW)
    assert known(known(read_record(case.world.kept)).before).total >= 50
    case.rate = 10.0
    unrelated(case.restart()).run(WINDOW + 30)
    assert (case.cap, case.condition()) == (16, "False/SetAside")


def test_a_stored_rollback_without_a_reference_gets_one() -> None:
    case = edited(edited(measured_pool(), 0.7, **BAD).run(WINDOW + 15), 1.0)
    record = replace(known(read_record(case.world.kept)), before=None)
    case.restart().world.kept = record.as_json()
    case.run(WINDOW + 15)
    unrelated(case.restart()).run(WINDOW + 30)
    assert (case.cap, case.condition()) == (16, "False/SetAside")


def test_the_reference_of_a_rollback_is_written_once_a_window() -> None:
    case = edited(edited(measured_pool(), 0.7, **BAD).run(WINDOW + 15), 1.0)
    records = set()
    for number in range(10 * WINDOW // 5):
        case.on_time = 0.9 + number / 2000
        records.add(case.run(5).world.kept)
    assert 9 <= len(records) <= 11


def test_an_undone_edit_leaves_no_reference() -> None:
    case = edited(edited(measured_pool(), 0.7, **BAD).run(WINDOW + 15), 1.0, **GOOD)
    assert known(read_record(case.run(3 * WINDOW).world.kept)).before is None
