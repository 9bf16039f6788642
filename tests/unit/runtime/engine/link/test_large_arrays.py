"""Large arrays are copied by a thread; what is sent behind them comes behind them, up to the end."""

import asyncio
import mmap
import socket
from typing import Any

import numpy as np
import pytest

from penstock_runtime.engine.link.process.channel import MessageChannel
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
    assert wire._copying
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
