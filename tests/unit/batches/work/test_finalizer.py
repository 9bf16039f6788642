"""Finalizers of two replicas that end the same batch, on each store."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock_batches import transitions
from penstock_batches.errors import StateConflict
from penstock_batches.payloads import Payloads
from penstock_batches.records import Answer, BatchJob, Counts, Line, Status
from penstock_batches.store.base import Store
from penstock_batches.work import intake
from penstock_batches.work.finalizer import Finalizer
from tests.support.batches.served import jsonl, request_line
from tests.unit.batches.values import NOW, in_progress

LINES = 4


async def answered(store: Store, payloads: Payloads) -> BatchJob:
    """Return a batch that is finalizing, with an answer for each line."""
    rows = [jsonl([request_line(str(number))]) for number in range(1, LINES + 1)]
    part = payloads.part()
    part.write(b"".join(rows))
    part.commit("file-in")
    running = in_progress(in_progress_at=NOW)
    await store.add_batch(running)
    ends = [sum(map(len, rows[:number])) for number in range(LINES)]
    places = zip(ends, rows, strict=True)
    await store.add_lines(
        running.id, [Line(number, end, len(row)) for number, (end, row) in enumerate(places, 1)]
    )
    await store.set_total(running.id, LINES)
    segment = payloads.segment(running.id, "first")
    offsets = segment.append([b"answer\n"] * LINES)
    segment.close()
    await store.answer(
        running.id,
        [Answer(number, "first", offset, 7, ok=True) for number, offset in enumerate(offsets, 1)],
    )
    return await store.write(transitions.finalizing(running, NOW))


async def test_a_finalizer_that_is_overtaken_leaves_the_files_of_the_other(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "GROUP_LINES", 2)
    payloads = Payloads(tmp_path / "payloads")
    payloads.prepare()
    batch = await answered(store, payloads)
    frozen, thaw, answers = asyncio.Event(), asyncio.Event(), store.answers

    async def freezing(batch_id: str, numbers: Sequence[int]) -> list[Answer]:
        if 1 not in numbers and not frozen.is_set():
            frozen.set()
            await thaw.wait()
        return await answers(batch_id, numbers)

    monkeypatch.setattr(store, "answers", freezing)
    slow = asyncio.create_task(Finalizer(store, payloads, 30).finalize(batch))
    await frozen.wait()
    await Finalizer(store, payloads, 30).finalize(batch)
    thaw.set()
    with pytest.raises(StateConflict):
        await slow
    ended = await store.batch(batch.id)
    assert ended is not None
    assert (ended.status, ended.final) == (Status.COMPLETED, Counts(LINES, LINES, 0))
    assert (ended.output_file_id, ended.error_file_id) == ("file-1-output", None)
    assert payloads.path("file-1-output").read_bytes() == b"answer\n" * LINES
    assert not payloads.path("file-1-error").exists()
