"""The `process` placement: the engine in a process of its own (CUDA, two cores or more).

An engine thread beside a busy event loop slows every step, and no switch interval cures it
(docs/design/runtime.md#topology). Here the two share memory and a socket: one frame a message, tensors in
shared memory, the heartbeat readable without asking.

The `process` placement of generation: an engine beside a busy event loop would wait for it at every step.
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
from typing import Any, ClassVar, Generic, TypeVar

from penstock_api.limits import LimitsUpdate
from penstock_runtime.engine.continuous.interfaces import StepExecutor
from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.link import shared_memory
from penstock_runtime.engine.link.base import Heartbeat, ModelLoadFailed
from penstock_runtime.engine.link.channel import MessageChannel
from penstock_runtime.engine.link.deadlines import Deadlines
from penstock_runtime.engine.link.frames import Frames
from penstock_runtime.engine.link.handshake import (
    MEMORY_BYTES,
    TO_ENGINE,
    Loaded,
    NotLoaded,
    Start,
    StartGeneration,
)
from penstock_runtime.engine.link.heartbeat import SharedHeartbeat
from penstock_runtime.engine.messages import (
    Cancel,
    EngineDied,
    EngineReport,
    FromEngine,
    Settled,
    Submit,
)
from penstock_runtime.engine.model import Model, ModelInfo

LATE_SECONDS = 0.005
"""How long after a deadline it is told here: an engine that is free tells it itself, or that the request began."""
CLOSE_SECONDS = 30.0
"""How long `close` waits for a running batch before it kills the process."""
Info = TypeVar("Info")
"""What a loaded model says of itself."""


class ChildLink(Generic[Info]):
    """An engine in a child process; its messages are the affair of the two who speak them."""

    child: ClassVar[str]
    """The module that the child runs."""

    def __init__(self, begin: object, clock: Callable[[], float]) -> None:
        """`begin` is the first message: it crosses to the child, so it is picklable."""
        self._begin = begin
        now = clock()
        self._beat = Heartbeat(now, busy=False, predicted_seconds=0.0, alive_at=now)
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = asyncio.Event()
        self._dead = False
        self._closing = False
        self._pulse: SharedHeartbeat
        self._wire: MessageChannel
        self._ready: asyncio.Future[Any]
        """Of `Info`: what comes through a socket is known by its name only."""
        self._deliver: Callable[[Any], None]

    async def start(self, deliver: Callable[[Any], None]) -> Info:
        """As `EngineLink.start`."""
        self._deliver = deliver
        self._ready = asyncio.get_running_loop().create_future()
        self._spawn()
        self._wire.send(self._begin)
        info: Info = await self._ready
        return info

    def send(self, message: object) -> None:
        """As `EngineLink.send`."""
        if self._process is not None and not self._dead:
            self._wire.send(message)

    def set_more_coming_hint(self, coming: Callable[[], bool]) -> None:
        """As `EngineLink.set_more_coming_hint`: the engine has cores of its own, so it waits for nobody here."""

    def heartbeat(self) -> Heartbeat:
        """As `EngineLink.heartbeat`."""
        if self._process is not None:
            self._beat = self._pulse.read(self._beat)
        return self._beat

    def kill(self) -> None:
        """As `EngineLink.kill`."""
        self._dead = True
        if self._process is not None:
            self._process.kill()

    async def close(self) -> None:
        """As `EngineLink.close`."""
        if self._process is None or self._process.returncode is not None:
            return
        self._closing = True
        self._wire.finish()
        if not self._ready.done():
            self._process.kill()  # nobody waits for a load
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            self._process.kill()
            await self._ended.wait()

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        descriptor = shared_memory.create(MEMORY_BYTES)
        try:
            memory = mmap.mmap(descriptor, MEMORY_BYTES)
            descriptors = (theirs.fileno(), descriptor)
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our own module
                [sys.executable, "-m", self.child, *map(str, descriptors)],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
            )
        finally:
            theirs.close()
            os.close(descriptor)
        self._pulse = SharedHeartbeat(memory, self._clock)
        self._wire = MessageChannel(ours, Frames(memory, TO_ENGINE), self._take, self._child_closed)

    def _take(self, message: object) -> None:
        match message:
            case Loaded(info=info):
                if not self._ready.done():
                    self._ready.set_result(info)
            case NotLoaded(reason):
                self._refuse(reason)
            case _:
                self._dead = self._dead or isinstance(message, EngineDied)
                self._deliver(message)

    def _child_closed(self) -> None:
        """The socket has ended, and with it the child, at this moment or very soon."""
        self._reaping = asyncio.create_task(self._reap())

    async def _reap(self) -> None:
        assert self._process is not None  # noqa: S101 - it has just closed its socket
        code = await asyncio.to_thread(self._process.wait)
        if not self._ready.done():
            self._refuse(f"the model did not load: the engine's process {_ending(code)}")
        elif not self._closing and not self._dead:
            self._dead = True
            self._deliver(EngineDied(f"its process {_ending(code)}"))
        self._ended.set()

    def _refuse(self, reason: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(ModelLoadFailed(reason))
            self._ready.exception()  # a start that was cancelled has nobody left to hear it


class ProcessLink(ChildLink[ModelInfo]):
    """An `EngineLink` whose engine loads and runs its model in a child process.

    `load` crosses to the child, so it is picklable: a function of a module, or a `functools.partial` of one.
    """

    child = "penstock_runtime.engine.link.child"

    def __init__(
        self,
        load: Callable[[], Model],
        limits: LimitsUpdate,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(Start(load, limits), clock)
        self._deadlines = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        """Of the earliest deadline when it was set, or of an earlier one."""
        self._report: EngineReport
        """The engine's last word of itself."""
        self._hear: Callable[[FromEngine], None]

    async def start(self, deliver: Callable[[FromEngine], None]) -> ModelInfo:
        """As `EngineLink.start`."""
        self._hear = deliver
        return await super().start(self._pass_on)

    def send(self, message: object) -> None:
        """As `EngineLink.send`."""
        super().send(message)
        if self._dead or self._process is None:
            return
        if isinstance(message, Submit):
            self._deadlines.note(message.requests)
            self._watch()
        elif isinstance(message, Cancel):
            self._deadlines.forget(message.ids)

    async def close(self) -> None:
        """As `EngineLink.close`."""
        await super().close()
        self._look_away()

    def _pass_on(self, message: FromEngine) -> None:
        if isinstance(message, EngineDied):
            self._look_away()
            self._hear(message)
            return
        self._report = message.report
        self._hear(self._deadlines.news(message))

    # -- deadlines that pass while a batch runs, which the child's one thread cannot tell

    def _watch(self) -> None:
        """Look again when the earliest deadline has passed."""
        deadline = self._deadlines.next()
        if deadline is None:
            return
        wait = max(0.0, deadline + LATE_SECONDS - self._clock())
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + wait:
                return
            self._timer.cancel()
        self._timer = loop.call_later(wait, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._wire.read()  # who has begun or ended meanwhile
        ends = self._deadlines.expire(self._clock())
        if ends and not self._dead:
            self._wire.send(Cancel(tuple(name for name, _ in ends)))
            self._hear(Settled(ends, None, self._report))
        self._watch()

    def _look_away(self) -> None:
        self._deadlines = Deadlines()
        if self._timer is not None:
            self._timer.cancel()


def _ending(code: int) -> str:
    """Return how a process ended, in words; a kill that nobody here sent is nearly always the memory limit's."""
    if code >= 0:
        return f"ended with exit code {code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"


class GenerationProcessLink(ChildLink[GenerationInfo]):
    """A `GenerationLink` whose engine loads and runs its model in a child process.

    `load` crosses to the child, so it is picklable.
    """

    child = "penstock_runtime.engine.link.generation_child"

    def __init__(
        self,
        load: Callable[[], StepExecutor],
        limits: GenerationLimits,
        *,
        depth: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(StartGeneration(load, limits, depth), clock)
