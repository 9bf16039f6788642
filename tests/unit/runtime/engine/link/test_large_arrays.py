"""Large arrays are copied by a thread or not at all; what is sent behind them comes behind them, up to the end."""

import asyncio
import mmap
import socket
from typing import Any

import numpy as np
import pytest

from penstock_runtime.engine.link.process.channel import FLUSH_BYTES, MessageChannel
from penstock_runtime.engine.link.process.frames import LARGE_BYTES, Frames
from penstock_runtime.engine.messages import Cancel, Submit
from tests.unit.runtime.engine.dynamic.builders import a_request

SIZE = 2**24
ROWS = LARGE_BYTES


@pytest.mark.parametrize("room", [SIZE // 2, 4096], ids=["shared", "behind the pickle"])
async def test_what_is_sent_behind_large_arrays_comes_behind_them(room: int) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    memory = mmap.mmap(-1, SIZE)
    ended = asyncio.Event()
    wire = MessageChannel(ours, Frames(memory, (0, room)), lambda _message: None, ended.set)
    wire.send(Submit((a_request("a", rows=ROWS, value=3.0),)))
    await asyncio.sleep(0)
    assert wire._copying == (room > 4096)
    wire.send(Cancel(("a",)))
    wire.finish()
    child, messages = Frames(memory, (SIZE // 2, SIZE // 2)), list[Any]()
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(theirs, 2**20):
        for sent in child.decode(data):
            messages += sent
    first, second = messages
    assert isinstance(first, Submit)
    assert isinstance(second, Cancel)
    (array,) = first.requests[0].inputs.values()
    assert array.nbytes > LARGE_BYTES
    assert bool((np.asarray(array) == 3.0).all())
    theirs.close()
    await ended.wait()


class Swallowing(socket.socket):
    """A socket that takes whatever it is given."""

    taken = 0

    def send(self, data: Any, _flags: int = 0) -> int:
        self.taken += len(data)
        return len(data)


async def test_arrays_without_a_block_are_sent_uncopied_and_a_bounded_part_per_iteration() -> None:
    ours, theirs = socket.socketpair()
    taking = Swallowing(fileno=ours.detach())
    wire = MessageChannel(taking, Frames(mmap.mmap(-1, 8192), (0, 4096)), print, print)
    large = [a_request(name, rows=ROWS, value=3.0) for name in "abcd"]
    wire.send(Submit(tuple(large)))
    size = large[0].inputs["x"].nbytes
    await asyncio.sleep(0)
    for part, request in zip(wire._unsent, large[1:], strict=True):
        assert np.shares_memory(np.frombuffer(part, np.uint8), request.inputs["x"])
    assert size < taking.taken < size + FLUSH_BYTES
    while wire._unsent:
        before = taking.taken
        await asyncio.sleep(0)
        assert taking.taken - before <= size + FLUSH_BYTES
    assert 4 * size < taking.taken < 4 * size + 4096
    wire.close()
    theirs.close()
