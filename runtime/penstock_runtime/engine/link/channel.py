"""The parent's end of the socket to an engine's process: never blocks the event loop.

What is sent in one turn of the loop goes as one frame; what comes is one frame a step, and one wake-up.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from penstock_runtime.engine.link.frames import LARGE_BYTES, Frames
from penstock_runtime.engine.messages import Submit

RECEIVE_BYTES = 2**20
"""Of a buffer that is kept: room for so much, made anew for each frame, costs a step 15 microseconds of the kernel's."""


class MessageChannel:
    """Sends what it is given in order, as fast as the child reads; delivers what comes, then the end."""

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
        self._unsent = bytearray()
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._closing = False
        self._copying = False
        """Whether a thread copies large arrays: what is sent meanwhile goes behind them."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self.read)

    def send(self, message: object) -> None:
        """Send `message` with what else is sent in this turn of the loop."""
        if self._closing:
            return
        if not self._queued:
            self._loop.call_soon(self._dispatch)
        self._queued.append(message)

    def finish(self) -> None:
        """Send nothing more: once all is out, the child is told so."""
        self._dispatch()
        self._closing = True
        self._flush()

    def close(self) -> None:
        """Forget the socket."""
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()
        self._closing = True

    def _dispatch(self) -> None:
        """Send now what the socket takes, and the rest when it takes more."""
        if self._copying:
            return
        queued, self._queued = self._queued, []
        if queued and self._connection.fileno() >= 0:
            frame = self._frames.begin(_together(queued))
            if frame.copied_bytes > LARGE_BYTES:
                self._copying = True
                self._loop.run_in_executor(None, frame.finish).add_done_callback(self._copied)
            else:
                self._send(frame.finish())

    def _copied(self, frame: asyncio.Future[bytes]) -> None:
        self._copying = False
        self._send(frame.result())
        self._dispatch()

    def _send(self, frame: bytes) -> None:
        self._unsent += frame
        if not self._flush() and self._connection.fileno() >= 0:
            self._loop.add_writer(self._connection, self._flush)

    def _flush(self) -> bool:
        """Return whether all is out."""
        if self._connection.fileno() < 0:
            return True
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
            if self._closing and not self._copying and not self._queued:
                self._connection.shutdown(socket.SHUT_WR)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._unsent.clear()  # the child is gone: reading says so
        self._loop.remove_writer(self._connection)
        return True

    def read(self) -> None:
        """Deliver what has come."""
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


def _together(messages: list[object]) -> tuple[object, ...]:
    """Return `messages` in their order, neighbouring requests in one."""
    return tuple(
        one
        for together, group in groupby(messages, lambda one: isinstance(one, Submit))
        for one in ((_submit(group),) if together else group)
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
