"""The `thread` placement: an engine whose model loads and runs in one thread of this process.

`ThreadLink` owns the thread and its lifecycle; a host decides where the engine's bookkeeping runs. `ThreadHost` runs
all of the engine in the thread. `event_loop_host.EventLoopHost` keeps the bookkeeping in the event loop.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import override

from penstock_runtime.engine.link.base import (
    EngineLink,
    Heartbeat,
    ModelLoadFailed,
    OpenedEngine,
    Opener,
)
from penstock_runtime.engine.link.heartbeat import ThreadHeartbeat
from penstock_runtime.engine.link.thread.inbox import ThreadInbox
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import describe

CLOSE_SECONDS = 30.0
"""Time that a running batch has to finish after `close`; a stuck thread, a daemon, does not block the exit."""

Command = TypeVar("Command")
Command_contra = TypeVar("Command_contra", contravariant=True)
Report = TypeVar("Report")
Info = TypeVar("Info")
Info_co = TypeVar("Info_co", covariant=True)


class LinkState(Enum):
    """Lifecycle of a `ThreadLink`, which only moves forward."""

    LOADING = auto()
    SERVING = auto()
    CLOSED = auto()
    """Closed, killed, or its engine has died: messages are ignored."""


@dataclass(frozen=True, slots=True)
class EventLoopPort(Generic[Report]):
    """The event loop as a host reaches it."""

    loop: asyncio.AbstractEventLoop
    deliver: Callable[[Report], None]
    """Delivers a report; called in the event loop."""
    call: Callable[..., None]
    """Calls a function in the event loop, from any thread."""
    die: Callable[[str], None]
    """Ends the link with a reason; called in the event loop."""


class EngineHost(Protocol[Command_contra, Report, Info_co]):
    """Runs one engine for a `ThreadLink`. `open` and `run` are called in the link's thread, the others in the loop."""

    def connect(self, port: EventLoopPort[Report]) -> None:
        """Set the port through which this host reaches the event loop."""

    def open(self) -> Info_co:
        """Load the model.

        Raises:
            ModelLoadFailed: with one line that names the file or factory and the remedy.
        """

    def begin(self) -> None:
        """Deliver the first report of the opened engine, and serve from now on."""

    def run(self) -> None:
        """Serve until `close` or `kill`."""

    def send(self, message: Command_contra) -> None:
        """Take a message for the engine; it may come before `begin`."""

    def set_more_coming_hint(self, more_coming: Callable[[], bool]) -> None:
        """Set the function that returns whether more requests are about to be sent."""

    def heartbeat(self) -> Heartbeat:
        """Return the last heartbeat; callable from any thread."""

    def kill(self) -> None:
        """Abandon the engine; callable from any thread."""

    async def close(self, timeout_seconds: float) -> None:
        """Let a running batch finish, then end the remaining requests."""


class ThreadLink(EngineLink[Command, Report, Info], Generic[Command, Report, Info]):
    """A link to an engine in a thread of this process."""

    def __init__(self, host: EngineHost[Command, Report, Info]) -> None:
        self._host = host
        self._state = LinkState.LOADING
        self._thread = threading.Thread(target=self._run, name="penstock-engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._ready: asyncio.Future[Info]
        """Done once the model serves or has failed to load."""
        self._deliver: Callable[[Report | EngineDied], None]

    @override
    async def start(self, deliver: Callable[[Report | EngineDied], None]) -> Info:
        self._loop = asyncio.get_running_loop()
        self._ready = self._loop.create_future()
        self._deliver = deliver
        self._host.connect(EventLoopPort(self._loop, deliver, self._call_in_loop, self._die))
        self._thread.start()
        return await self._ready

    @override
    def send(self, message: Command) -> None:
        if self._state is not LinkState.CLOSED:
            self._host.send(message)

    @override
    def set_more_coming_hint(self, more_coming: Callable[[], bool]) -> None:
        self._host.set_more_coming_hint(more_coming)

    @override
    def heartbeat(self) -> Heartbeat:
        return self._host.heartbeat()

    @override
    def kill(self) -> None:
        self._state = LinkState.CLOSED
        self._host.kill()

    @override
    async def close(self) -> None:
        if self._state is LinkState.CLOSED:
            return
        self._state = LinkState.CLOSED
        await self._host.close(CLOSE_SECONDS)
        # an abandoned load is not awaited
        if self._thread.ident is not None and self._ready.done():
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)

    # -- in the loop

    def _begin(self, info: Info) -> None:
        if self._state is LinkState.LOADING:
            self._state = LinkState.SERVING
            self._host.begin()
        if not self._ready.done():
            self._ready.set_result(info)

    def _fail_load(self, error: ModelLoadFailed) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)

    def _die(self, reason: str) -> None:
        self.kill()
        self._deliver(EngineDied(reason))

    # -- in the thread

    def _run(self) -> None:
        try:
            info = self._host.open()
        except ModelLoadFailed as error:
            self._call_in_loop(self._fail_load, error)
            return
        except BaseException as error:  # noqa: BLE001  a model's code may even call sys.exit
            failure = ModelLoadFailed(f"the model did not load: {describe(error)}")
            self._call_in_loop(self._fail_load, failure)
            return
        self._call_in_loop(self._begin, info)
        try:
            self._host.run()
        except BaseException as error:  # noqa: BLE001  the HTTP side reports why the engine died
            self._call_in_loop(self._die, describe(error))

    def _call_in_loop(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function in the event loop; a closed loop ends the link."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            self.kill()


class ThreadHost(EngineHost[Command, Report, Info], Generic[Command, Report, Info]):
    """Runs an engine in the link's thread, its bookkeeping included."""

    def __init__(
        self, opener: Opener[Command, Report, Info], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._opener = opener
        self._clock = clock
        self._inbox: ThreadInbox[Command] = ThreadInbox(clock)
        self._heartbeat = ThreadHeartbeat(clock)
        self._opened: OpenedEngine[Any, Report, Info]
        self._port: EventLoopPort[Report]

    @override
    def connect(self, port: EventLoopPort[Report]) -> None:
        self._port = port

    @override
    def open(self) -> Info:
        self._opened = self._opener(self._clock)
        return self._opened.info

    @override
    def begin(self) -> None:
        self._port.deliver(self._opened.first_report())

    @override
    def run(self) -> None:
        try:
            self._opened.serve(self._inbox, self._post, self._heartbeat, self._clock)
        finally:
            self._inbox.close()

    def _post(self, report: Report) -> None:
        self._port.call(self._port.deliver, report)

    @override
    def send(self, message: Command) -> None:
        self._inbox.send(message)

    @override
    def set_more_coming_hint(self, more_coming: Callable[[], bool]) -> None:
        """Ignore the hint: prompts join at every step."""

    @override
    def heartbeat(self) -> Heartbeat:
        return self._heartbeat.last

    @override
    def kill(self) -> None:
        self._inbox.close()

    @override
    async def close(self, timeout_seconds: float) -> None:
        self._inbox.close()
