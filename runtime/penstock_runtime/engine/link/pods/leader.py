"""`WorkerPods`: the leader's connections to the other pods of its group."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from penstock_runtime.engine.link.pods.connection import PodConnection
from penstock_runtime.engine.link.pods.interfaces import use_interface_of
from penstock_runtime.engine.link.pods.messages import (
    MAX_LINE_BYTES,
    Close,
    Closing,
    Hello,
    Lost,
    Meet,
    PodMessage,
    RanksLoaded,
    Refused,
    Stopping,
    pod_label,
    refusal,
)
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import PodSeat
from penstock_runtime.engine.rendezvous import store_address

log = logging.getLogger(__name__)

JOIN_SECONDS: Final = 1800.0
"""Time for all workers to be scheduled, to fetch the model and to join."""
REMIND_SECONDS: Final = 30.0
"""Interval of the log lines about workers that have not joined."""
LOOK_SECONDS: Final = 0.05
CLOSE_SECONDS: Final = 2.0
"""Time for the workers to acknowledge the end."""


class GroupPhase(Enum):
    """Phase of the group, as its leader sees it."""

    JOINING = auto()
    """Workers join and leave."""
    STARTING = auto()
    """All have joined, and rank 0 starts."""
    STARTED = auto()
    """The ranks of the workers were started: the loss of a worker ends the group."""
    ENDED = auto()
    """The workers are disconnected."""


class WorkerPhase(Enum):
    """Phase of a worker that has joined."""

    JOINED = auto()
    LOADED = auto()
    CLOSING = auto()
    """Its disconnect is expected."""


@dataclass(slots=True)
class JoinedWorker:
    """A connected worker."""

    connection: PodConnection
    label: str
    phase: WorkerPhase = WorkerPhase.JOINED


class WorkerPods:
    """Admits the workers, starts their ranks, and reports those that are lost."""

    def __init__(
        self,
        group: PodSeat,
        host: str,
        settings: Callable[[], Mapping[str, str]],
        stop: Callable[[], None],
    ) -> None:
        """`settings` are those that all pods must share; `stop` is called when a worker receives SIGTERM after all have joined."""
        self._group = group
        self._host = host
        self._read_settings = settings
        self._settings: Mapping[str, str] = {}
        self._stop = stop
        self._workers: dict[int, JoinedWorker] = {}
        """Those that are connected, by index."""
        self._changed = asyncio.Event()
        self._failure: str | None = None
        """Why the group cannot start."""
        self._phase = GroupPhase.JOINING
        self._lose: Callable[[str], None]
        self._server: asyncio.Server | None = None

    async def join(self, lose: Callable[[str], None]) -> None:
        """Wait until all workers have joined; `lose` gets the words of each that is lost after its ranks were started.

        Raises:
            ModelLoadFailed: the port is taken, a worker differs from the leader, or one has not joined in time.
        """
        self._lose = lose
        self._settings = await asyncio.to_thread(self._read_settings)
        port = self._group.port
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, port, limit=MAX_LINE_BYTES
            )
        except OSError as error:
            raise ModelLoadFailed(
                f"port {port}, at which the pods of the group meet, cannot be opened: {error.strerror or error}"
            ) from error
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                while missing := self._missing():
                    log.info("waiting for pods %s of %d", missing, self._group.pods)
                    await self._changes(lambda: not self._missing(), REMIND_SECONDS)
        except TimeoutError:
            raise ModelLoadFailed(
                f"pods {self._missing()} of {self._group.pods} have not joined within {JOIN_SECONDS:.0f} s:"
                " look at their events and logs"
            ) from None
        self._phase = GroupPhase.STARTING
        use_interface_of(next(iter(self._workers.values())).connection.own_address)

    async def load(self, folder: Path) -> None:
        """Start the ranks of the workers as soon as rank 0 has written its address to `folder`; wait until they are loaded.

        Raises:
            ModelLoadFailed: a worker is lost.
        """
        while (address := store_address(folder)) is None:
            await self._changes(lambda: False, LOOK_SECONDS)
        self._phase = GroupPhase.STARTED
        if self._missing():
            raise ModelLoadFailed(f"pods {self._missing()} of {self._group.pods} have left")
        self._send_all(Meet(address.port))
        while not self._all_in(WorkerPhase.LOADED):
            await self._changes(lambda: self._all_in(WorkerPhase.LOADED), REMIND_SECONDS)

    def end(self, words: str) -> None:
        """Report to the workers that the group ends."""
        self._send_all(Lost(words))
        self._disconnect()

    def dismiss(self) -> None:
        """End a group that does not serve yet, without a loss: workers whose ranks were not started wait for the next leader."""
        if self._phase is GroupPhase.STARTED:
            self._send_all(Close())
        self._disconnect()

    async def close(self) -> None:
        """Report to the workers that no step follows, and wait until they know it; no worker joins any more."""
        if self._server is not None:
            self._server.close()
        self._send_all(Close())
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while not self._all_in(WorkerPhase.CLOSING):
                    self._changed.clear()
                    await self._changed.wait()

    def _all_in(self, phase: WorkerPhase) -> bool:
        return all(worker.phase is phase for worker in self._workers.values())

    def _missing(self) -> str:
        """Return the indices of the workers that have not joined, for messages."""
        return ", ".join(str(n) for n in range(1, self._group.pods) if n not in self._workers)

    async def _changes(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait until `done`, at most `seconds`.

        Raises:
            ModelLoadFailed: the group cannot start.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not done() and self._failure is None:
                    self._changed.clear()
                    await self._changed.wait()
        if self._failure is not None:
            raise ModelLoadFailed(self._failure)

    def _send_all(self, message: PodMessage) -> None:
        for worker in self._workers.values():
            worker.connection.send(message)

    def _disconnect(self) -> None:
        self._phase = GroupPhase.ENDED
        for worker in self._workers.values():
            worker.connection.close()
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the connection of a worker, until it is gone."""
        connection, index = PodConnection(reader, writer), 0

        def deliver(message: PodMessage) -> None:
            nonlocal index
            if index:
                self._receive(index, message)
            elif isinstance(message, Hello):
                index = self._admit(message, connection)

        how = await connection.listen(deliver)
        connection.close()
        if index:
            self._left(index, how)

    def _admit(self, hello: Hello, connection: PodConnection) -> int:
        """Return the index of a worker that joins; 0 for one that is refused, or comes too late."""
        label = pod_label(hello.index, hello.name)
        if self._phase is GroupPhase.ENDED:
            connection.close()
            return 0
        if hello.index in self._workers or self._phase is GroupPhase.STARTED:
            connection.send(Refused(f"{label} has joined already: the group must start again"))
            return 0
        reason = refusal(hello, self._group.pods, self._settings)
        if reason is not None:
            connection.send(Refused(reason))
            self._fail(reason)
            return 0
        log.info("%s has joined from %s", label, connection.other_address)
        self._workers[hello.index] = JoinedWorker(connection, label)
        self._changed.set()
        return hello.index

    def _receive(self, index: int, message: PodMessage) -> None:
        worker = self._workers[index]
        match message:
            case RanksLoaded():
                worker.phase = WorkerPhase.LOADED
                self._changed.set()
            case Lost(words):
                worker.phase = WorkerPhase.CLOSING
                self._fail(words)
            case Stopping():
                log.info("%s has received SIGTERM", worker.label)
                if self._phase in (GroupPhase.STARTING, GroupPhase.STARTED):
                    self._stop()
            case Closing():
                worker.phase = WorkerPhase.CLOSING
                self._changed.set()

    def _left(self, index: int, how: str) -> None:
        worker = self._workers.pop(index)
        if self._phase is not GroupPhase.STARTED:
            log.warning("%s has left: %s", worker.label, how)
        elif worker.phase is not WorkerPhase.CLOSING:
            self._fail(f"{worker.label}: {how}")

    def _fail(self, words: str) -> None:
        """Record why the group ends, and report it where it had started."""
        self._failure = self._failure or words
        self._changed.set()
        if self._phase is GroupPhase.STARTED:
            self._lose(words)
