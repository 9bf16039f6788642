"""The child's side of the `process` placement: `python -m penstock_runtime.engine.link.process.child SOCKET MEMORY`.

The child uses neither asyncio nor aiohttp: it blocks on its socket when idle, and on its parent when the
parent reads slowly. It stops when the parent closes its side of the socket or dies.
"""

import mmap
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from penstock_runtime.engine.crashes import report_crashes
from penstock_runtime.engine.dynamic.loop import Inbox
from penstock_runtime.engine.link.base import OpenedEngine
from penstock_runtime.engine.link.heartbeat import SharedHeartbeat
from penstock_runtime.engine.link.process.frames import Frames
from penstock_runtime.engine.link.process.handshake import (
    FROM_ENGINE,
    MEMORY_BYTES,
    Loaded,
    NotLoaded,
    Start,
)
from penstock_runtime.engine.link.thread.inbox import ThreadInbox
from penstock_runtime.engine.machine import spare_the_collector
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import ModelLoadFailed, describe

RECEIVE_BYTES = 2**20
"""Size of the receive buffer, which is allocated once (as in `channel.py`)."""


class ProcessInbox:
    """The queue of messages to an engine from another process: an `Inbox` over a socket."""

    def __init__(self, connection: socket.socket, frames: Frames) -> None:
        self._connection = connection
        self._frames = frames
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._closed = False

    def receive(self, until: float | None) -> Sequence[Any] | None:
        """Return all received messages; wait until `until` for the first, None once the parent is gone."""
        messages: list[Any] = []
        while not self._closed and self._readable(until, waiting=not messages):
            size = self._connection.recv_into(self._buffer)
            self._closed = not size
            frames = self._frames.decode(self._buffer[:size])
            messages.extend(message for frame in frames for message in frame)
        return None if self._closed and not messages else messages

    def _readable(self, until: float | None, *, waiting: bool) -> bool:
        seconds = 0.0 if not waiting else None
        if waiting and until is not None:
            seconds = max(0.0, until - time.monotonic())
        return bool(select.select([self._connection], (), (), seconds)[0])


class EngineChild:
    """Opens and runs one engine in this process."""

    def __init__(self, connection: socket.socket, memory: mmap.mmap) -> None:
        self._connection = connection
        self._frames = Frames(memory, FROM_ENGINE)
        self._inbox = ProcessInbox(connection, self._frames)
        self._heartbeat = SharedHeartbeat(memory, time.monotonic)

    def run(self) -> int:
        """Load, serve until the parent closes, and return the exit code."""
        start: Any = (self._inbox.receive(None) or (None,))[0]
        if not isinstance(start, Start):
            return 1
        try:
            opened = start.open(time.monotonic)
        except ModelLoadFailed as error:
            return self._exit(NotLoaded(str(error)))
        except BaseException as error:  # noqa: BLE001  a model's code may even call sys.exit
            return self._exit(NotLoaded(f"the model did not load: {describe(error)}"))
        spare_the_collector()
        self._post(opened.first_report())
        self._post(Loaded(opened.info))
        return self._serve(opened)

    def _serve(self, opened: OpenedEngine[Any, Any, Any]) -> int:
        inbox = self._listener() if opened.receives_in_thread else self._inbox
        try:
            opened.serve(inbox, self._post, self._heartbeat, time.monotonic)
        except BaseException as error:  # noqa: BLE001  the HTTP side reports why the engine died
            return self._exit(EngineDied(describe(error)))
        return 0

    def _listener(self) -> Inbox[Any]:
        """Return an inbox that a separate thread fills from the socket."""
        inbox: ThreadInbox[Any] = ThreadInbox(time.monotonic)
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()
        return inbox

    def _listen(self, inbox: ThreadInbox[Any]) -> None:
        try:
            while (messages := self._inbox.receive(None)) is not None:
                inbox.send(*messages)
        finally:
            inbox.close()

    def _exit(self, message: object) -> int:
        """Post the last message, and return the exit code."""
        self._post(message)
        return 1

    def _post(self, message: object) -> None:
        # the inbox reports that the parent is gone
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.sendall(self._frames.encode((message,)))


def run_child(connection: int, memory: int) -> int:
    """Serve over two inherited descriptors; return the exit code."""
    report_crashes()
    # Ctrl-C reaches the whole process group; the parent decides when to stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=connection) as channel:
        return EngineChild(channel, mmap.mmap(memory, MEMORY_BYTES)).run()


if __name__ == "__main__":
    sys.exit(run_child(int(sys.argv[1]), int(sys.argv[2])))
