"""How one end of a connection between pods notices that the other is gone; the connections are real."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable

import pytest

from penstock_runtime.engine.link.pods import connection as module
from penstock_runtime.engine.link.pods.connection import PodConnection
from penstock_runtime.engine.link.pods.messages import (
    MAX_LINE_BYTES,
    Close,
    Meet,
    PodMessage,
    encode,
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def ends(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Streams, Streams]]:
    """Both ends of a connection on loopback, with a silence of half a second as the limit."""
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.5)
    # both ends share an event loop, which may stand still for as long on a busy machine
    monkeypatch.setattr(module, "ASLEEP_SECONDS", 0.02)
    accepted: asyncio.Queue[Streams] = asyncio.Queue()
    server = await asyncio.start_server(
        lambda *streams: accepted.put_nowait(streams), "127.0.0.1", 0, limit=MAX_LINE_BYTES
    )
    here = await asyncio.open_connection(*server.sockets[0].getsockname())
    there = await accepted.get()
    yield here, there
    for _, writer in (here, there):
        writer.close()
    server.close()


def drop(_: PodMessage) -> None:
    raise AssertionError("no message was sent")


async def test_messages_arrive_in_order_and_beats_are_not_delivered(
    ends: tuple[Streams, Streams],
) -> None:
    here, there = PodConnection(*ends[0]), PodConnection(*ends[1])
    received: asyncio.Queue[PodMessage] = asyncio.Queue()
    listening = asyncio.create_task(here.listen(received.put_nowait))
    other = asyncio.create_task(there.listen(drop))
    there.send(Meet(29501))
    await asyncio.sleep(1.2)  # longer than the limit of silence: the beats alone keep it
    there.send(Close())
    async with asyncio.timeout(5):
        assert [await received.get() for _ in range(2)] == [Meet(29501), Close()]
    there.close()  # beats that it has not read make the end a reset
    assert re.search("closed its connection|connection broke", await listening)
    assert received.empty()
    other.cancel()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda _: None, "no sign of life"),
        (lambda writer: writer.close(), "closed its connection"),
        (lambda writer: writer.transport.abort(), "closed its connection"),
        (lambda writer: writer.write(b"GET / HTTP/1.1\r\n\r\n"), "not a pod-group message"),
        (lambda writer: writer.write(bytes(MAX_LINE_BYTES + 2)), "not a pod-group message"),
        (
            lambda writer: (writer.write(encode(Close())[:4]), writer.close()),
            "not a pod-group message",
        ),
    ],
    ids=["silent", "closed", "aborted", "another protocol", "a line without an end", "cut off"],
)
async def test_the_end_is_noticed_and_described(
    ends: tuple[Streams, Streams], act: Callable[[asyncio.StreamWriter], object], words: str
) -> None:
    listening = asyncio.create_task(PodConnection(*ends[0]).listen(drop))
    act(ends[1][1])
    async with asyncio.timeout(30):
        assert words in await listening
