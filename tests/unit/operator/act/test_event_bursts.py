"""Bursts of Events: no step is skipped, and the rate of writes is bounded."""

import pytest

from penstock_operator.act.event_bursts import (
    BURST_SECONDS,
    MAX_UNWRITTEN,
    MESSAGE_LENGTH,
    WRITE_SECONDS,
    Burst,
    PoolBursts,
)
from penstock_operator.decide.actions import EventNote, EventType

NOW = 1_800_000_000.0


def step(before: int, after: int) -> EventNote:
    return EventNote(EventType.NORMAL, "ScaledUp", f"Replicas {before} -> {after}: demand.")


def write(bursts: PoolBursts, now: float) -> list[Burst]:
    """Write what is due, as `Events` does."""
    due = bursts.due(now)
    for burst in due:
        bursts.record_attempt(burst.note.reason, now)
        burst.written = burst.count
    return due


def test_the_first_step_is_due_at_once() -> None:
    bursts = PoolBursts()
    bursts.add(step(1, 2), NOW)
    assert [burst.message for burst in bursts.due(NOW)] == ["Replicas 1 -> 2: demand."]


def test_steps_of_a_burst_share_an_event_that_tells_them_all() -> None:
    bursts = PoolBursts()
    for second, (before, after) in enumerate([(1, 2), (2, 4), (4, 5)]):
        bursts.add(step(before, after), NOW + 5 * second)
    (burst,) = bursts.due(NOW + 10)
    assert burst.count == 3
    assert burst.message == (
        "Replicas 1 -> 2: demand; Replicas 2 -> 4: demand; Replicas 4 -> 5: demand."
    )


def test_a_repeated_step_is_counted_and_told_once() -> None:
    bursts = PoolBursts()
    for _ in range(3):
        bursts.add(step(1, 2), NOW)
    (burst,) = bursts.due(NOW)
    assert (burst.count, burst.message) == (3, "Replicas 1 -> 2: demand.")


def test_a_note_after_the_clock_was_set_back_is_a_new_event_that_is_due() -> None:
    bursts = PoolBursts()
    bursts.add(step(1, 2), NOW)
    write(bursts, NOW)
    bursts.add(step(2, 3), NOW - 3600)
    (burst,) = write(bursts, NOW - 3600)
    assert (burst.count, burst.first) == (1, NOW - 3600)
    assert not bursts.prune(NOW - 3600)
    assert bursts.prune(NOW - 3600 + BURST_SECONDS)


def test_a_step_after_a_quiet_minute_begins_a_new_event() -> None:
    bursts = PoolBursts()
    bursts.add(step(1, 2), NOW)
    write(bursts, NOW)
    bursts.add(step(2, 3), NOW + BURST_SECONDS)
    (second,) = bursts.due(NOW + BURST_SECONDS)
    assert (second.count, second.written) == (1, 0)


def test_reasons_do_not_share_an_event() -> None:
    bursts = PoolBursts()
    bursts.add(step(1, 2), NOW)
    bursts.add(EventNote(EventType.NORMAL, "ScaledDown", "Replicas 2 -> 1."), NOW)
    assert [burst.note.reason for burst in bursts.due(NOW)] == ["ScaledUp", "ScaledDown"]


def test_two_writes_for_one_reason_are_ten_seconds_apart() -> None:
    bursts, writes = PoolBursts(), []
    for tick in range(120):  # two minutes of a step a second
        bursts.add(step(tick, tick + 1), NOW + tick)
        if write(bursts, NOW + tick):
            writes.append(tick)
    assert writes == list(range(0, 120, int(WRITE_SECONDS)))


@pytest.mark.parametrize("steps", [2, 40, 200])
def test_every_step_reaches_the_api_server(steps: int) -> None:
    bursts: PoolBursts = PoolBursts()
    messages: dict[str, str] = {}
    for tick in range(steps + int(WRITE_SECONDS)):
        if tick < steps:
            assert bursts.add(step(tick, tick + 1), NOW + tick) is None
        for burst in write(bursts, NOW + tick):
            messages[burst.name_suffix] = burst.message
    text = " ".join(messages.values())
    assert [tick for tick in range(steps) if f"Replicas {tick} -> {tick + 1}:" not in text] == []
    assert all(len(message) <= MESSAGE_LENGTH for message in messages.values())


def test_a_failed_write_is_due_again_after_the_pause() -> None:
    bursts = PoolBursts()
    bursts.add(step(1, 2), NOW)
    bursts.record_attempt("ScaledUp", NOW)
    assert bursts.due(NOW + WRITE_SECONDS - 1) == []
    assert len(bursts.due(NOW + WRITE_SECONDS)) == 1


def test_the_oldest_unwritten_event_makes_room_and_is_returned() -> None:
    bursts = PoolBursts()
    minutes = [NOW + BURST_SECONDS * minute for minute in range(MAX_UNWRITTEN + 1)]
    dropped = [bursts.add(step(n, n + 1), minute) for n, minute in enumerate(minutes)]
    assert [burst.message for burst in dropped if burst] == ["Replicas 0 -> 1: demand."]
    assert len(bursts.unwritten()) == MAX_UNWRITTEN


def test_nothing_is_kept_once_a_burst_is_written_and_over() -> None:
    bursts = PoolBursts()
    bursts.add(step(1, 2), NOW)
    assert not bursts.prune(NOW + BURST_SECONDS)
    write(bursts, NOW)
    assert not bursts.prune(NOW + BURST_SECONDS - 1)
    assert bursts.prune(NOW + BURST_SECONDS)
