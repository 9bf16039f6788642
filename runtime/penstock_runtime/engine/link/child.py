"""The child's side of the `process` placement: `python -m penstock_runtime.engine.link.child SOCKET MEMORY`.

It knows no asyncio and no aiohttp: it blocks on its socket when it has nothing to do, and on its parent when
the parent is slow to read. The parent closing its side, or dying, is the order to stop.
"""

import mmap
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from penstock_runtime.engine.crashes import report_crashes
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.dynamic.loop import serve
from penstock_runtime.engine.dynamic.warm_up import warm_up
from penstock_runtime.engine.link.frames import Frames
from penstock_runtime.engine.link.handshake import (
    FROM_ENGINE,
    MEMORY_BYTES,
    Loaded,
    NotLoaded,
    Start,
)
from penstock_runtime.engine.link.heartbeat import SharedHeartbeat
from penstock_runtime.engine.machine import spare_the_collector
from penstock_runtime.engine.messages import EngineDied, Settled
from penstock_runtime.engine.model import Model, ModelLoadFailed, describe

RECEIVE_BYTES = 2**20
"""Of a buffer that is kept (as in `channel.py`)."""


class ProcessInbox:
    """As `engine.dynamic.loop.Inbox`, over a socket."""

    def __init__(self, connection: socket.socket, frames: Frames) -> None:
        self._connection = connection
        self._frames = frames
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._closed = False

    def receive(self, until: float | None) -> Sequence[Any] | None:
        """Return all that has come; wait until `until` for the first of it, None once the parent is gone."""
        messages: list[Any] = []
        while not self._closed and self._readable(until, waiting=not messages):
            size = self._connection.recv_into(self._buffer)
            self._closed = not size
            frames = self._frames.decode(self._buffer[:size])
            messages.extend(one for frame in frames for one in frame)
        return None if self._closed and not messages else messages

    def _readable(self, until: float | None, *, waiting: bool) -> bool:
        seconds = 0.0 if not waiting else None
        if waiting and until is not None:
            seconds = max(0.0, until - time.monotonic())
        return bool(select.select([self._connection], (), (), seconds)[0])


class Child:
    """One engine's life in this process."""

    def __init__(self, connection: socket.socket, memory: mmap.mmap) -> None:
        self._connection = connection
        self._frames = Frames(memory, FROM_ENGINE)
        self.inbox = ProcessInbox(connection, self._frames)
        self.pulse = SharedHeartbeat(memory, time.monotonic)

    def live(self) -> int:
        """Load, serve until the parent is done; return the exit code."""
        begin: Any = (self.inbox.receive(None) or (None,))[0]
        if not isinstance(begin, Start):
            return 1
        try:
            model, engine = _prepare(begin)
        except ModelLoadFailed as error:
            return self.last_word(NotLoaded(str(error)))
        except BaseException as error:  # noqa: BLE001  a model's code may even call sys.exit
            return self.last_word(NotLoaded(f"the model did not load: {describe(error)}"))
        spare_the_collector()
        self.post(Settled((), None, engine.report()))
        self.post(Loaded(model.info))
        try:
            serve(engine, self.inbox, self.post, self.pulse, time.monotonic)
        except BaseException as error:  # noqa: BLE001  whatever ends the engine, the HTTP side must know
            return self.last_word(EngineDied(describe(error)))
        return 0

    def last_word(self, message: object) -> int:
        """Post why this ends, and return the exit code."""
        self.post(message)
        return 1

    def post(self, message: object) -> None:
        """Send a message to the parent."""
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # a parent that is gone: the inbox says so
            self._connection.sendall(self._frames.encode((message,)))


def _prepare(begin: Start) -> tuple[Model, BatchEngine]:
    model = begin.load()
    warmed = warm_up(model, time.monotonic)
    return model, BatchEngine(model, begin.limits, warmed.bound_rows, warmed.curve)


def run_child(child: type[Child], connection: int, memory: int) -> int:
    """Serve over two inherited descriptors; return the exit code."""
    report_crashes()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group: the parent decides
    with socket.socket(fileno=connection) as channel:
        return child(channel, mmap.mmap(memory, MEMORY_BYTES)).live()


if __name__ == "__main__":
    sys.exit(run_child(Child, int(sys.argv[1]), int(sys.argv[2])))
