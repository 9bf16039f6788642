"""What two processes share: blocks that are lent and come back, frames, a heartbeat that is never torn."""

import gc
import mmap
import pickle
import subprocess
import sys
import threading
from queue import SimpleQueue

import numpy as np
import pytest

from penstock_runtime.engine.link.base import Heartbeat
from penstock_runtime.engine.link.heartbeat import SharedHeartbeat
from penstock_runtime.engine.link.process.frames import Frames
from penstock_runtime.engine.link.process.shared_memory import BlockAllocator, BlockReader
from penstock_runtime.engine.messages import Submit
from penstock_runtime.request import Request
from tests.unit.runtime.engine.dynamic.builders import FakeClock, a_request

SIZE = 2**20


@pytest.fixture
def memory() -> mmap.mmap:
    return mmap.mmap(-1, SIZE)


@pytest.fixture
def ends(memory: mmap.mmap) -> tuple[Frames, Frames]:
    """Two sides, each lending one half."""
    return Frames(memory, (0, SIZE // 2)), Frames(memory, (SIZE // 2, SIZE // 2))


def large(name: str = "a", rows: int = 2000) -> Submit:
    return Submit((a_request(name, rows=rows, value=3.0),))


def only(frames: Frames, data: bytes) -> Submit:
    (message,) = frames.decode(data)
    assert isinstance(message, Submit)
    return message


def test_blocks_are_lent_from_below_and_their_gaps_are_closed(memory: mmap.mmap) -> None:
    lender = BlockAllocator(memory, 0, 4096)
    starts = [lent[0] for lent in (lender.allocate(1000) for _ in range(4)) if lent]
    assert starts == [0, 1024, 2048, 3072]
    assert lender.allocate(1) is None
    for start in (2048, 0, 1024):
        lender.free(start)
    assert lender.allocated_bytes == 1024
    assert lender.allocate(3072) is not None


def test_a_block_that_is_not_out_cannot_come_back(memory: mmap.mmap) -> None:
    with pytest.raises(KeyError):
        BlockAllocator(memory, 0, 4096).free(64)


def test_one_thread_allocates_while_another_frees(memory: mmap.mmap) -> None:
    allocator, returned = BlockAllocator(memory, 0, SIZE), SimpleQueue[int | None]()
    errors: list[KeyError] = []

    def receive() -> None:
        while (start := returned.get()) is not None:
            try:
                allocator.free(start)
            except KeyError as error:
                errors.append(error)

    thread, interval = threading.Thread(target=receive), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        thread.start()
        for number in range(10_000):
            block = allocator.allocate((4096, 65_536, 8192)[number % 3])
            if block is not None:
                returned.put(block[0])
        returned.put(None)
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert (errors, allocator.allocated_bytes) == ([], 0)
    assert allocator.allocate(SIZE) is not None, "the gaps are closed"


def test_a_block_is_done_with_when_the_last_array_over_it_dies(memory: mmap.mmap) -> None:
    borrower = BlockReader(memory)
    block = borrower.read(128, 256)
    view = block[64:128].view(np.float32).reshape(4, 4)
    del block
    gc.collect()
    assert borrower.done() == ()
    del view
    gc.collect()
    assert borrower.done() == (128,)
    assert borrower.done() == ()


def test_arrays_cross_without_being_in_the_frame(ends: tuple[Frames, Frames]) -> None:
    mine, theirs = ends
    data = mine.encode(large())
    assert len(data) < 1000
    (request,) = only(theirs, data).requests
    assert request.inputs["x"].tolist() == [[3.0, 3.0]] * 2000
    assert not request.inputs["x"].flags.owndata
    assert mine.allocated_bytes == 16_000


def test_a_block_comes_back_with_the_next_message_of_the_other_side(
    ends: tuple[Frames, Frames],
) -> None:
    mine, theirs = ends
    message = only(theirs, mine.encode(large()))
    assert only(mine, theirs.encode(Submit(()))).requests == ()
    assert mine.allocated_bytes > 0, "it is still read"
    del message
    gc.collect()
    list(mine.decode(theirs.encode(Submit(()))))
    assert mine.allocated_bytes == 0


def test_small_arrays_and_those_without_room_go_in_the_frame(ends: tuple[Frames, Frames]) -> None:
    mine, theirs = ends
    small = only(theirs, mine.encode(Submit((a_request("s", rows=3, value=2.0),))))
    assert small.requests[0].inputs["x"].tolist() == [[2.0, 2.0]] * 3
    first = only(theirs, mine.encode(large(rows=SIZE // 16)))
    more = only(theirs, mine.encode(large("b", rows=SIZE // 16)))
    assert mine.allocated_bytes == SIZE // 2, "the second found no room"
    for message in (first, more):
        assert (message.requests[0].inputs["x"] == 3.0).all()


def test_arrays_of_any_dtype_come_aligned_and_writeable(ends: tuple[Frames, Frames]) -> None:
    mine, theirs = ends
    inputs = {
        "flag": np.array([[True], [False]]),
        "wide": np.arange(6, dtype=np.float64).reshape(2, 3),
        "empty": np.zeros((2, 0), np.int16),
        "strided": np.arange(12, dtype=np.int32).reshape(2, 6)[:, ::2],
    }
    request = Request("a", inputs, 2, (), 0.0)
    for rows in (1, 4000):  # in the frame, then in shared memory
        request.inputs["filling"] = np.zeros((2, rows), np.uint8)
        (got,) = only(theirs, mine.encode(Submit((request,)))).requests
        for name, array in request.inputs.items():
            assert got.inputs[name].dtype == array.dtype
            assert got.inputs[name].tolist() == array.tolist()
            assert got.inputs[name].flags.aligned
            assert got.inputs[name].flags.writeable


def test_a_frame_holds_more_arrays_than_a_full_batch_has_outputs(
    ends: tuple[Frames, Frames],
) -> None:
    mine, theirs = ends
    sent = [np.full(1, n, np.int32) for n in range(70_000)]  # 4,096 requests have 17 each
    (got,) = theirs.decode(mine.encode(sent))
    assert np.concatenate(got).tolist() == list(range(70_000))


def test_frames_may_arrive_in_pieces_or_many_at_once(ends: tuple[Frames, Frames]) -> None:
    mine, theirs = ends
    data = b"".join(mine.encode(Submit((a_request(str(n)),))) for n in range(3))
    messages = [
        message
        for start in range(0, len(data), 7)
        for message in theirs.decode(data[start : start + 7])
    ]
    assert [message.requests[0].id for message in messages] == ["0", "1", "2"]
    again = list(theirs.decode(data))
    assert len(again) == 3


def test_a_thousand_messages_leave_nothing_lent(ends: tuple[Frames, Frames]) -> None:
    mine, theirs = ends
    for _ in range(1000):
        only(theirs, mine.encode(large(rows=1000)))
        list(mine.decode(theirs.encode(Submit(()))))
    list(mine.decode(theirs.encode(Submit(()))))
    assert mine.allocated_bytes == 0


def test_a_heartbeat_is_read_whole_or_not_at_all(memory: mmap.mmap) -> None:
    clock = FakeClock(5.0)
    heartbeat, before = SharedHeartbeat(memory, clock), Heartbeat(1.0, False, 0.0, 1.0)
    assert heartbeat.read(before) == before, "nothing was written yet"
    heartbeat.begin(0.25)
    assert heartbeat.read(before) == Heartbeat(5.0, True, 0.25, 5.0)
    clock.advance(2.0)
    heartbeat.tick()
    assert heartbeat.read(before) == Heartbeat(7.0, True, 0.25, 7.0)
    heartbeat.end()
    assert heartbeat.read(before) == Heartbeat(7.0, False, 0.0, 7.0)
    clock.advance(1.0)
    heartbeat.tick_idle()
    assert heartbeat.read(before) == Heartbeat(7.0, False, 0.0, 8.0), "a tick is no step"
    memory[0] += 1  # as a writer leaves it that died between its two marks
    assert heartbeat.read(before) == before


def test_an_engines_process_needs_no_web_server_and_the_http_side_no_torch() -> None:
    for module, banned in (
        ("penstock_runtime.engine.link.process.child", ("aiohttp", "asyncio", "torch")),
        ("penstock_runtime.assembly", ("torch", "transformers")),
        ("penstock_runtime.http.server", ("torch", "transformers")),
        ("penstock_runtime.serving.tokenizer_pool", ("torch", "transformers")),
    ):
        code = f"import {module}, sys; print([one for one in {banned!r} if one in sys.modules])"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.strip() == "[]", module


def test_messages_are_pickled_by_name_and_small() -> None:
    assert len(pickle.dumps(Submit((a_request("a"),)), 5)) < 600
