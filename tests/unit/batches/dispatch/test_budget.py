"""The memory of lines and answers."""

import asyncio
from pathlib import Path

import pytest

from penstock_batches.dispatch import recorder as recording
from penstock_batches.dispatch.budget import ByteBudget
from penstock_batches.dispatch.recorder import AnswerRecorder
from penstock_batches.payloads import Payloads, Segment
from penstock_batches.store.base import Store
from tests.unit.batches.values import in_progress, lines


async def test_bytes_are_given_out_in_order_and_come_back() -> None:
    budget, begun, release = ByteBudget(10), list[int](), asyncio.Event()

    async def holder(size: int) -> None:
        async with budget.room(size):
            begun.append(size)
            await release.wait()

    holders = []
    for size in (6, 99, 1):  # the second is larger than the budget, and the third waits behind it
        holders.append(asyncio.create_task(holder(size)))
        await asyncio.sleep(0)
    assert begun == [6]
    holders[0].cancel()
    await asyncio.wait(holders[:1])
    await asyncio.sleep(0.01)
    assert begun == [6, 99]
    release.set()
    await asyncio.gather(*holders[1:])
    assert begun == [6, 99, 1]


async def test_one_that_no_longer_waits_gives_its_turn_to_the_next() -> None:
    budget = ByteBudget(10)
    async with budget.room(5):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), budget.room(6):
                pass
        async with asyncio.timeout(5), budget.room(5):
            pass


async def test_answers_are_written_in_groups_of_bounded_size(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_GROUP_BYTES", 10)
    written, append = list[list[int]](), Segment.append

    def counted(segment: Segment, contents: list[bytes]) -> list[int]:
        written.append([len(content) for content in contents])
        return append(segment, contents)

    monkeypatch.setattr(Segment, "append", counted)
    await store.add_batch(in_progress())
    await store.add_lines("batch_1", lines(4))
    payloads = Payloads(tmp_path / "payloads")
    payloads.prepare()
    recorder = AnswerRecorder(store, payloads, "this")
    running = asyncio.create_task(recorder.run())
    sizes = (4, 6, 1, 12)
    records = [
        recorder.record("batch_1", number, b"x" * size, ok=True)
        for number, size in enumerate(sizes, 1)
    ]
    assert all(await asyncio.gather(*records))
    assert written == [[4, 6], [1], [12]]
    running.cancel()
    await recorder.forget("batch_1")
