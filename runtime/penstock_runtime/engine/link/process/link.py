"""The `process` placement: the engine in a child process, used with CUDA or at least two cores.

An engine thread that shares an interpreter with a busy event loop slows every step, and no `sys.setswitchinterval`
value avoids it (docs/design/runtime.md#topology). Parent and child share memory and a socket: one frame per message,
tensors in shared memory, and a heartbeat that is read without a message.
"""

import asyncio
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from typing_extensions import override

from penstock_runtime.engine.link.base import EngineLink, Heartbeat, ModelLoadFailed, Opener
from penstock_runtime.engine.link.heartbeat import SharedHeartbeat
from penstock_runtime.engine.link.process import shared_memory
from penstock_runtime.engine.link.process.channel import MessageChannel
from penstock_runtime.engine.link.process.frames import Frames
from penstock_runtime.engine.link.process.handshake import (
    MEMORY_BYTES,
    TO_ENGINE,
    Loaded,
    NotLoaded,
    Start,
)
from penstock_runtime.engine.messages import EngineDied

CHILD_MODULE: Final = "penstock_runtime.engine.link.process.child"
CLOSE_SECONDS = 30.0
"""Time that a running batch has to finish before `close` kills the process."""

Command = TypeVar("Command")
Report = TypeVar("Report")
Info = TypeVar("Info")
Command_contra = TypeVar("Command_contra", contravariant=True)


class Interceptor(Protocol[Command_contra, Report]):
    """Observes the messages of a link, and may inject reports."""

    def connect(self, channel: MessageChannel, deliver: Callable[[Report], None]) -> None:
        """Use `channel` and `deliver` from now on."""

    def sent(self, message: Command_contra) -> None:
        """Record a message that was sent to the engine."""

    def received(self, report: Report) -> Report:
        """Return the part of a report to deliver."""

    def stop(self) -> None:
        """Inject no more reports."""


class ProcessLink(EngineLink[Command, Report, Info], Generic[Command, Report, Info]):
    """A link to an engine that a child process opens and runs."""

    def __init__(
        self,
        opener: Opener[Command, Report, Info],
        clock: Callable[[], float] = time.monotonic,
        interceptor: Interceptor[Command, Report] | None = None,
    ) -> None:
        """`opener` is sent to the child, so it must be picklable."""
        self._start = Start(opener)
        self._interceptor = interceptor
        now = clock()
        self._last_heartbeat = Heartbeat(now, busy=False, predicted_seconds=0.0, alive_at=now)
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._exited = asyncio.Event()
        self._dead = False
        self._closing = False
        self._heartbeat: SharedHeartbeat
        self._channel: MessageChannel
        self._ready: asyncio.Future[Info]
        self._deliver: Callable[[Report | EngineDied], None]

    @override
    async def start(self, deliver: Callable[[Report | EngineDied], None]) -> Info:
        self._deliver = deliver
        self._ready = asyncio.get_running_loop().create_future()
        self._spawn()
        if self._interceptor is not None:
            self._interceptor.connect(self._channel, deliver)
        self._channel.send(self._start)
        return await self._ready

    @override
    def send(self, message: Command) -> None:
        if self._process is None or self._dead:
            return
        self._channel.send(message)
        if self._interceptor is not None:
            self._interceptor.sent(message)

    @override
    def set_more_coming_hint(self, more_coming: Callable[[], bool]) -> None:
        """Ignore the hint: the engine runs on other cores and holds no batch for the event loop."""

    @override
    def heartbeat(self) -> Heartbeat:
        if self._process is not None:
            self._last_heartbeat = self._heartbeat.read(self._last_heartbeat)
        return self._last_heartbeat

    @override
    def kill(self) -> None:
        self._dead = True
        self._stop_interceptor()
        if self._process is not None:
            self._process.kill()

    @override
    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._closing = True
            self._channel.finish()
            await self._wait_for_exit(self._process)
        self._stop_interceptor()

    async def _wait_for_exit(self, process: subprocess.Popen[bytes]) -> None:
        if not self._ready.done():
            process.kill()  # the load was abandoned
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._exited.wait()
        except TimeoutError:
            process.kill()
            await self._exited.wait()

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        descriptor = shared_memory.create(MEMORY_BYTES)
        try:
            memory = mmap.mmap(descriptor, MEMORY_BYTES)
            descriptors = (theirs.fileno(), descriptor)
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our own module
                [sys.executable, "-m", CHILD_MODULE, *map(str, descriptors)],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
            )
        finally:
            theirs.close()
            os.close(descriptor)
        self._heartbeat = SharedHeartbeat(memory, self._clock)
        frames = Frames(memory, TO_ENGINE)
        self._channel = MessageChannel(ours, frames, self._receive, self._child_closed)

    def _receive(self, message: Any) -> None:
        match message:
            case Loaded(info=info):
                if not self._ready.done():
                    self._ready.set_result(info)
            case NotLoaded(reason):
                self._dead = True
                self._fail_load(reason)
            case EngineDied():
                self._dead = True
                self._stop_interceptor()
                self._deliver(message)
            case _:
                report: Report = message
                if self._interceptor is not None:
                    report = self._interceptor.received(report)
                self._deliver(report)

    def _stop_interceptor(self) -> None:
        if self._interceptor is not None:
            self._interceptor.stop()

    def _child_closed(self) -> None:
        """Reap the child, which has closed its socket and exits now; after its last words no thread of the model keeps it."""
        if self._dead and self._process is not None:
            self._process.kill()
        self._reaping = asyncio.create_task(self._reap())

    async def _reap(self) -> None:
        assert self._process is not None  # noqa: S101 - it has just closed its socket
        code = await asyncio.to_thread(self._process.wait)
        if not self._ready.done():
            self._fail_load(f"the model did not load: the engine's process {_exit_text(code)}")
        elif not self._closing and not self._dead:
            self._receive(EngineDied(f"its process {_exit_text(code)}"))
        self._exited.set()

    def _fail_load(self, reason: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(ModelLoadFailed(reason))
            self._ready.exception()  # marks it as retrieved: a cancelled start awaits no result


def _exit_text(code: int) -> str:
    """Return how a process ended; an external SIGKILL is nearly always the OOM killer's."""
    if code >= 0:
        return f"ended with exit code {code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"
