"""`WorkerRanks`: the ranks of a worker pod, which join the leader and end with it."""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Mapping
from enum import Enum, auto
from functools import partial
from typing import Any, Final

from penstock_runtime.engine.link.local_ranks import LocalRanks
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
)
from penstock_runtime.engine.model import ModelLoadFailed, describe
from penstock_runtime.engine.placement import PodSeat
from penstock_runtime.engine.rendezvous import StoreAddress, write_store_address

log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
REMIND_SECONDS: Final = 30.0
"""Interval of the log lines about a leader that cannot be reached."""


class WorkerRanksPhase(Enum):
    """Phase of the ranks of a worker."""

    JOINING = auto()
    LOADING = auto()
    LOADED = auto()
    CLOSING = auto()
    """The leader has ended without a loss."""


class WorkerRanks:
    """Waits for the leader without limit; then the ranks of this pod live as long as the group."""

    def __init__(
        self,
        group: PodSeat,
        name: str,
        settings: Callable[[], Mapping[str, str]],
        local: LocalRanks,
        loaded: Callable[[], None],
    ) -> None:
        """`name` is that of this pod, `settings` reads those that all pods must share; `loaded` is called when the ranks are."""
        self.status = "its model is being fetched"
        """What the pod waits for."""
        self._group = group
        self._name = name
        self._settings = settings
        self._local = local
        self._on_loaded = loaded
        self._phase = WorkerRanksPhase.JOINING
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the group has ended: with the error that ended it, if it was one."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event, stop_seconds: float) -> None:
        """Follow the leader until the group ends, or until `stop` and then the leader's drain, at most `stop_seconds`.

        Raises:
            ModelLoadFailed: the leader refuses this pod, or a rank of the group did not load.
            GroupLost: the group ended after it was loaded.
        """
        following = asyncio.create_task(self._follow(stop))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done() and self._phase in (
                WorkerRanksPhase.LOADED,
                WorkerRanksPhase.CLOSING,
            ):
                await asyncio.wait({following}, timeout=stop_seconds)
            if following.done() and not stop.is_set():
                following.result()
        finally:
            for task in (following, stopping, *self._tasks):
                task.cancel()
            self._local.kill()

    async def _follow(self, stop: asyncio.Event) -> None:
        settings = dict(await asyncio.to_thread(self._settings))
        hello = Hello(self._group.index, self._group.pods, self._name, settings)
        while not self._ended.done():
            connection = await self._connect()
            connection.send(hello)
            self.status = f"it waits for the other pods of the group of {self._group.pods}"
            receive = partial(self._receive, connection)
            listening = asyncio.create_task(connection.listen(receive))
            stopping = asyncio.create_task(self._report_stop(stop, connection))
            try:
                either: set[asyncio.Future[Any]] = {listening, self._ended}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if self._phase is WorkerRanksPhase.CLOSING:
                    await asyncio.wait({self._ended})
                elif listening.done() and self._phase is not WorkerRanksPhase.JOINING:
                    self._fail(f"the leader, pod 0 ({self._group.leader}): {listening.result()}")
            finally:
                listening.cancel()
                stopping.cancel()
                connection.close()
        self._ended.result()

    async def _connect(self) -> PodConnection:
        """Return a connection to the leader, as soon as there is one."""
        where = f"{self._group.leader}:{self._group.port}"
        loop, reminded = asyncio.get_running_loop(), float("-inf")
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(
                        self._group.leader, self._group.port, limit=MAX_LINE_BYTES
                    )
                return PodConnection(reader, writer)
            except OSError as error:
                self.status = f"it waits for the leader at {where}: {_why(error)}"
            if loop.time() - reminded >= REMIND_SECONDS:
                reminded = loop.time()
                log.warning("%s", self.status)
            await asyncio.sleep(RETRY_SECONDS)

    def _receive(self, connection: PodConnection, message: PodMessage) -> None:
        match message:
            case Meet(port):
                self._phase = WorkerRanksPhase.LOADING
                self._run(self._start(port, connection))
            case Refused(reason):
                self._finish(ModelLoadFailed(f"the leader refuses this pod: {reason}"))
            case Lost(words):
                self._fail(words)
            case Close():
                self._phase = WorkerRanksPhase.CLOSING
                self._run(self._close(connection))

    async def _start(self, port: int, connection: PodConnection) -> None:
        """Load the ranks, and report it."""
        self.status = "its ranks are loading"
        use_interface_of(connection.own_address)
        write_store_address(self._local.folder, StoreAddress(connection.other_address, port))
        try:
            await self._local.start(lambda _: None, lambda words: self._lose(words, connection))
        except Exception as error:  # the leader reports whatever keeps a rank from loading
            log.exception("the ranks did not load")
            text = str(error) if isinstance(error, ModelLoadFailed) else describe(error)
            self._lose(text, connection)
            return
        if self._phase is WorkerRanksPhase.CLOSING:
            return
        self._phase = WorkerRanksPhase.LOADED
        self._on_loaded()
        connection.send(RanksLoaded())

    async def _close(self, connection: PodConnection) -> None:
        """Close the ranks, and acknowledge first: from then on their exit is not a loss."""
        closing = asyncio.create_task(self._local.close())
        await asyncio.sleep(0)
        connection.send(Closing())
        await closing
        self._finish(None)

    async def _report_stop(self, stop: asyncio.Event, connection: PodConnection) -> None:
        await stop.wait()
        connection.send(Stopping())

    def _lose(self, words: str, connection: PodConnection) -> None:
        """Report to the leader that a rank is lost; it ends the group.

        Where the leader has closed its ranks and its `Close` is still to be read, it is no loss.
        """
        if self._phase is WorkerRanksPhase.CLOSING:
            return
        connection.send(Lost(words))
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._fail, words)

    def _fail(self, words: str) -> None:
        if self._phase is WorkerRanksPhase.CLOSING:
            return
        self._finish(
            ModelLoadFailed(words)
            if self._phase in (WorkerRanksPhase.JOINING, WorkerRanksPhase.LOADING)
            else GroupLost(words)
        )

    def _finish(self, error: Exception | None) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class GroupLost(Exception):
    """Ranks of the group are lost, so that all of its pods end."""


def _why(error: OSError) -> str:
    """Return why the leader cannot be reached."""
    if isinstance(error, socket.gaierror):
        return "its name does not resolve yet"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there yet"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:.0f} s"
    return error.strerror or str(error)
