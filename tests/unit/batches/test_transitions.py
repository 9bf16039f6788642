"""The edges between the states of a batch."""

from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types import Batch as OpenAIBatch

from penstock_batches import transitions
from penstock_batches.errors import IllegalTransition
from penstock_batches.records import BatchJob, Counts, Fault, Status
from tests.unit.batches.values import NOW, batch, in_progress

FAULT = (Fault("empty_file", "The batch file is empty."),)


def test_the_states_are_those_of_openai() -> None:
    assert {each.value for each in Status} == set(
        get_args(OpenAIBatch.model_fields["status"].annotation)
    )


def test_a_batch_goes_from_validating_to_completed() -> None:
    started = transitions.started(batch(), "demo", (), NOW)
    assert (started.status, started.model, started.in_progress_at) == ("in_progress", "demo", NOW)
    closed = transitions.finalizing(started, NOW + 1)
    ended = transitions.ended(closed, "file-out", None, Counts(3, 3, 0), NOW + 2)
    assert (ended.status, ended.output_file_id, ended.completed_at) == (
        "completed",
        "file-out",
        NOW + 2,
    )


def test_a_batch_whose_time_is_over_expires_if_lines_are_left() -> None:
    late = transitions.finalizing(in_progress(), in_progress().expires_at)
    assert transitions.ended(late, None, None, Counts(3, 2, 0), NOW).status is Status.EXPIRED
    assert transitions.ended(late, None, None, Counts(3, 2, 1), NOW).status is Status.COMPLETED


def test_a_cancelled_batch_ends_cancelled_whatever_was_answered() -> None:
    for start in (batch(), in_progress()):
        cancelled = transitions.cancelling(start, NOW)
        assert cancelled.cancelling_at == NOW
        ended = transitions.ended(cancelled, None, None, Counts(3, 3, 0), NOW + 1)
        assert (ended.status, ended.cancelled_at) == ("cancelled", NOW + 1)


def test_a_batch_closes_when_nothing_is_left_or_its_time_has_come() -> None:
    running = in_progress()
    assert not transitions.closes(running, Counts(2, 1, 0), NOW)
    assert transitions.closes(running, Counts(2, 1, 1), NOW)
    assert transitions.closes(running, Counts(2, 0, 0), running.expires_at)
    assert not transitions.closes(batch(), Counts(0, 0, 0), batch().expires_at)


def test_a_batch_lapses_that_is_validating_when_its_time_is_over() -> None:
    assert transitions.lapses(batch(), batch().expires_at)
    assert not transitions.lapses(batch(), batch().expires_at - 1)
    assert not transitions.lapses(in_progress(), in_progress().expires_at)


MOVES: dict[str, Callable[[BatchJob], BatchJob]] = {
    "started": lambda each: transitions.started(each, "demo", (), NOW),
    "failed": lambda each: transitions.failed(each, FAULT, NOW),
    "finalizing": lambda each: transitions.finalizing(each, NOW),
    "cancelling": lambda each: transitions.cancelling(each, NOW),
    "ended": lambda each: transitions.ended(each, None, None, Counts(), NOW),
}


@given(st.lists(st.sampled_from(sorted(MOVES))))
def test_no_order_of_moves_leaves_the_graph_or_an_end(moves: list[str]) -> None:
    current: BatchJob = batch()
    for move in moves:
        before = current.status
        try:
            current = MOVES[move](current)
        except IllegalTransition:
            continue
        assert current.status in transitions.EDGES[before]
        assert before not in transitions.ENDED


@pytest.mark.parametrize("status", sorted(transitions.ENDED))
def test_an_end_is_final(status: Status) -> None:
    for move in MOVES.values():
        with pytest.raises(IllegalTransition, match=status.value):
            move(replace(batch(), status=status))
