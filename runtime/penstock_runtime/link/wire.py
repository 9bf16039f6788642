"""The parent's end of the socket to an engine's process: never blocks the event loop, one wake-up a message."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from penstock_runtime.link.frames import Frames

RECEIVE_BYTES = 2**20


class Wire:
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
        self._unsent = bytearray()
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self._read)

    def send(self, message: object) -> None:
        """Send now what the socket takes, and the rest when it takes more."""
        if self._closing:
            return
        self._unsent += self._frames.encode(message)
        if not self._flush():
            self._loop.add_writer(self._connection, self._flush)

    def finish(self) -> None:
        """Send nothing more: once all is out, the child is told so."""
        self._closing = True
        self._flush()

    def close(self) -> None:
        """Forget the socket."""
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()
        self._closing = True

    def _flush(self) -> bool:
        """Return whether all is out."""
        if self._connection.fileno() < 0:
            return True
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
            if self._closing:
                self._connection.shutdown(socket.SHUT_WR)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._unsent.clear()  # the child is gone: reading says so
        self._loop.remove_writer(self._connection)
        return True

    def _read(self) -> None:
        try:
            data = self._connection.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        for message in self._frames.decode(data):
            self._deliver(message)
        if not data and self._connection.fileno() >= 0:
            self.close()
            self._ended()
