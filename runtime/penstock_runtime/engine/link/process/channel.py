"""`MessageChannel`: the parent's end of the socket to the engine process, which never blocks the event loop.

The messages of one iteration of the loop form one frame; the engine sends one frame per step, which is one wake-up.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from penstock_runtime.engine.link.process.frames import LARGE_BYTES, Frames
from penstock_runtime.engine.messages import Submit

RECEIVE_BYTES = 2**20
"""Size of the receive buffer, which is allocated once: allocating one per frame adds 15 µs of kernel time per step."""

FLUSH_BYTES = 2**22
"""Size that one iteration of the loop sends at most to a child that reads as fast, some 2 ms."""


class MessageChannel:
    """Sends messages in order, as fast as the child reads; delivers received messages, then the end."""

    def __init__(
        self,
        connection: socket.socket,
        frames: Frames,
        deliver: Callable[[Any], None],
        ended: Callable[[], None],
    ) -> None:
        """`ended` is called once, when the child has closed its side."""
        connection.setblocking(False)  # noqa: FBT003 - socket's own signature
        self._connection = connection
        self._frames = frames
        self._deliver = deliver
        self._ended = ended
        self._queued: list[object] = []
        self._unsent = deque[memoryview]()
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._closing = False
        self._copying = False
        """Whether a thread is copying large arrays; later messages are sent after them."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self.read)

    def send(self, message: object) -> None:
        """Send `message` with the others of this iteration of the loop."""
        if self._closing:
            return
        if not self._queued:
            self._loop.call_soon(self._dispatch)
        self._queued.append(message)

    def finish(self) -> None:
        """Accept no more messages, and shut the socket down for writing after the last byte."""
        self._dispatch()
        self._closing = True
        self._flush()

    def close(self) -> None:
        """Close the socket."""
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()
        self._closing = True

    def _dispatch(self) -> None:
        """Send what the socket accepts now, and the rest later."""
        if self._copying:
            return
        queued, self._queued = self._queued, []
        if queued and self._connection.fileno() >= 0:
            frame = self._frames.begin(_merge_submits(queued))
            if frame.copied_bytes <= LARGE_BYTES:
                self._send(frame.finish())
            elif frame.block is None:
                self._send(*frame.parts)  # not copied: the arrays of a request never change
            else:
                self._copying = True
                self._loop.run_in_executor(None, frame.finish).add_done_callback(self._copied)

    def _copied(self, frame: asyncio.Future[bytes]) -> None:
        self._copying = False
        self._send(frame.result())
        self._dispatch()

    def _send(self, *parts: bytes | memoryview) -> None:
        self._unsent.extend(map(memoryview, parts))
        if not self._flush() and self._connection.fileno() >= 0:
            self._loop.add_writer(self._connection, self._flush)

    def _flush(self) -> bool:
        """Return whether everything is sent."""
        if self._connection.fileno() < 0:
            return True
        room = FLUSH_BYTES
        try:
            while self._unsent:
                if room <= 0:
                    return False
                first = self._unsent[0]
                sent = self._connection.send(first)
                room -= sent
                if sent < len(first):
                    self._unsent[0] = first[sent:]
                else:
                    self._unsent.popleft()
            if self._closing and not self._copying and not self._queued:
                self._connection.shutdown(socket.SHUT_WR)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._unsent.clear()  # the child is gone: `read` reports it
        self._loop.remove_writer(self._connection)
        return True

    def read(self) -> None:
        """Deliver the received messages."""
        if self._connection.fileno() < 0:
            return
        try:
            size = self._connection.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        for messages in self._frames.decode(self._buffer[:size]):
            for message in messages:
                self._deliver(message)
        if not size and self._connection.fileno() >= 0:
            self.close()
            self._ended()


def _merge_submits(messages: list[object]) -> tuple[object, ...]:
    """Return `messages` in their order, with consecutive `Submit` messages merged."""
    return tuple(
        merged
        for are_submits, group in groupby(messages, lambda message: isinstance(message, Submit))
        for merged in ((_submit(group),) if are_submits else group)
    )


def _submit(messages: Iterable[object]) -> Submit:
    return Submit(
        tuple(
            request
            for message in messages
            if isinstance(message, Submit)
            for request in message.requests
        )
    )
