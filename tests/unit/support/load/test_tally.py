"""Every request is counted once, by its outcome."""

import pytest

from tests.support.load.report import Report, report
from tests.support.load.tally import (
    FinishedRequest,
    LoadOutcome,
    RequestTally,
    outcome_of,
    percentile,
)


@pytest.mark.parametrize(
    ("status", "retry_after", "correct", "outcome"),
    [
        (200, False, True, LoadOutcome.COMPLETED),
        (200, False, False, LoadOutcome.WRONG),
        (429, True, False, LoadOutcome.REFUSED),
        (503, True, False, LoadOutcome.REFUSED),
        (429, False, False, LoadOutcome.WRONG),
        (503, False, False, LoadOutcome.LOST),
        (500, True, False, LoadOutcome.LOST),
        (504, False, False, LoadOutcome.LOST),
        (400, False, False, LoadOutcome.WRONG),
        (404, False, False, LoadOutcome.WRONG),
    ],
)
def test_outcomes_follow_the_definition_of_lost(
    status: int, retry_after: bool, correct: bool, outcome: LoadOutcome
) -> None:
    assert outcome_of(status, retry_after=retry_after, correct=correct) is outcome


def test_percentiles_are_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 50) == 50
    assert percentile(values, 99) == 99
    assert percentile([4.0], 99) == 4
    assert percentile([], 99) is None


def test_latency_counts_from_the_intended_time() -> None:
    assert FinishedRequest(10.0, 12.5, LoadOutcome.COMPLETED).latency == 2.5


def test_what_was_sent_is_ended_or_in_flight() -> None:
    tally = RequestTally()
    for _ in range(5):
        tally.send(0.001)
    tally.end(FinishedRequest(0, 1, LoadOutcome.COMPLETED, "a"))
    tally.end(FinishedRequest(0, 1, LoadOutcome.LOST, note="ServerDisconnectedError: gone"))
    assert tally.in_flight == 3
    assert tally.outcomes.total() == 2
    assert tally.notes == ["lost ServerDisconnectedError: gone"]


def test_a_report_covers_the_last_seconds_and_the_final_one_all() -> None:
    tally = RequestTally()
    for ended, latency in ((1.0, 0.9), (20.0, 0.1)):
        tally.send(0)
        tally.end(FinishedRequest(ended - latency, ended, LoadOutcome.COMPLETED, "a"))
    assert report(tally, 20, 1, now=20.5).p99 == 100
    assert report(tally, 20, 1, now=20.5, final=True).p99 == 900


def test_a_report_survives_its_line() -> None:
    tally = RequestTally()
    tally.send(0.002)
    tally.end(FinishedRequest(0, 0.25, LoadOutcome.WRONG, "pod-1", "400 b'no'"))
    written = report(tally, 3.0, 20, now=3.0)
    assert Report.from_line(written.to_line()) == written


def test_shares_count_only_what_came_between() -> None:
    tally = RequestTally()
    before = report(tally, 0, 0, now=0)
    for pod in ("a", "b", "b", "b"):
        tally.send(0)
        tally.end(FinishedRequest(0, 1, LoadOutcome.COMPLETED, pod))
    after = report(tally, 1, 0, now=1)
    assert after.shares_since(before) == {"a": 0.25, "b": 0.75}
    assert after.shares_since(after) == {}


def test_a_request_without_a_connection_is_lost_and_counted_as_unreached() -> None:
    tally = RequestTally()
    for reached in (True, False):
        tally.send(0.0)
        tally.end(FinishedRequest(0.0, 1.0, LoadOutcome.LOST, note="refused", reached=reached))
    final = report(tally, 1.0, 1.0, 1.0)
    assert (final.lost, final.unreached) == (2, 1)
