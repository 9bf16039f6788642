"""`EventLoopHost`: a batch engine whose bookkeeping runs in the event loop and whose batches run in a thread.

The bookkeeping takes microseconds, so no lock guards it and a request waits in the queue as soon as it is sent.
Handing a batch to the thread costs two switches between threads that both need the interpreter. A batch on a CPU
that is predicted to be shorter than that runs in the loop, as long as the predictions are right.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue

from typing_extensions import override

from penstock_runtime.engine.dynamic.batch_former import Batch, WaitUntil
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.dynamic.execution import BatchResult
from penstock_runtime.engine.dynamic.opening import OpenedBatchEngine
from penstock_runtime.engine.link.base import Heartbeat
from penstock_runtime.engine.link.heartbeat import ThreadHeartbeat
from penstock_runtime.engine.link.thread.cpu_priority import BatchSchedPolicy
from penstock_runtime.engine.link.thread.inline_policy import InlinePolicy, MoreComingHint
from penstock_runtime.engine.link.thread.link import EngineHost, EventLoopPort
from penstock_runtime.engine.messages import SetLimits, Settled, Submit, ToEngine
from penstock_runtime.engine.model import ModelInfo, describe
from penstock_runtime.request import Request


class EventLoopHost(EngineHost[ToEngine, Settled, ModelInfo]):
    """Hosts a batch engine in the event loop."""

    def __init__(
        self,
        opener: Callable[[Callable[[], float]], OpenedBatchEngine],
        clock: Callable[[], float] = time.monotonic,
        max_inline_seconds: float = 0.0,
    ) -> None:
        """`max_inline_seconds`: the longest batch that runs in the loop; 0: every batch runs in the thread."""
        self._opener = opener
        self._clock = clock
        self._inline = InlinePolicy(max_inline_seconds) if max_inline_seconds > 0.0 else None
        """None: every batch runs in the thread."""
        self._hint: MoreComingHint | None = None
        """None: the HTTP side gives no hint."""
        self._sched_policy = BatchSchedPolicy()
        self._heartbeat = ThreadHeartbeat(clock)
        self._inbox: list[ToEngine] = []
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        """Batches for the thread; None ends it."""
        self._running = False
        """Whether the thread has a batch."""
        self._scheduled = False
        """Whether a turn is scheduled."""
        self._closing = False
        self._idle: asyncio.Future[None] | None = None
        """Done once the thread's batch has ended; set by a `close` that waits for it."""
        self._timer: asyncio.TimerHandle | None = None
        self._engine: BatchEngine | None = None
        """None: the model is not loaded, or the engine has ended."""
        self._opened: OpenedBatchEngine
        self._port: EventLoopPort[Settled]

    # -- in the loop

    @override
    def connect(self, port: EventLoopPort[Settled]) -> None:
        self._port = port

    @override
    def begin(self) -> None:
        info, self._engine = self._opened.info, self._opened.engine
        if info.has_free_dimensions or info.backend != "cpu":
            self._inline = (
                None  # rows alone do not predict the time, or the loop would wait for a device
            )
        self._post(self._engine)
        self._wake()

    @override
    def send(self, message: ToEngine) -> None:
        """Take a message; those of one iteration of the loop reach the engine together."""
        self._inbox.append(message)
        if not self._scheduled:
            self._wake()

    @override
    def set_more_coming_hint(self, more_coming: Callable[[], bool]) -> None:
        self._hint = MoreComingHint(more_coming)

    @override
    def heartbeat(self) -> Heartbeat:
        """Return the last heartbeat; between batches the event loop that calls this runs the engine."""
        last = self._heartbeat.last
        if last.busy or self._engine is None:
            return last
        return replace(last, alive_at=self._clock())

    @override
    def kill(self) -> None:
        self._engine, self._running = None, False
        self._heartbeat.end()
        self._batches.put(None)
        if not self._port.loop.is_closed():
            self._resolve_idle()

    @override
    async def close(self, timeout_seconds: float) -> None:
        self._closing = True
        if self._running:
            self._idle = self._port.loop.create_future()
            await asyncio.wait([self._idle], timeout=timeout_seconds)
        if self._engine is not None:
            self._take_messages(self._engine)
            self._engine.fail_all("the engine was closed", retry_after_seconds=1.0)
            self._post(self._engine)
        self._sched_policy.end()
        self._batches.put(None)

    def _wake(self) -> None:
        if not self._scheduled and self._engine is not None:
            self._scheduled = True
            self._port.loop.call_soon(self._step)

    def _wake_at(self, time: float) -> None:
        self._timer = self._port.loop.call_later(max(0.0, time - self._clock()), self._wake)

    def _step(self) -> None:
        self._scheduled = False
        if self._engine is None:  # it has ended since this was scheduled
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._turn(self._engine)
        except BaseException as error:  # noqa: BLE001  a model may even call sys.exit
            self._port.die(describe(error))

    def _turn(self, engine: BatchEngine) -> None:
        """Take messages; when the model is free, form the next batch and run it or hand it to the thread."""
        self._take_messages(engine)
        if self._running or self._closing:
            self._expire(engine)
        elif self._hint is not None and self._hint.holds(engine, self._clock()):
            self._wake_at(self._hint.until)
        else:
            placement = engine.plan(self._clock())
            if isinstance(placement, Batch):
                self._start(engine, placement)
            elif isinstance(placement, WaitUntil):
                self._wake_at(placement.time)
        self._post(engine)

    def _take_messages(self, engine: BatchEngine) -> None:
        """Hand messages to the engine; new limits only between batches, because they apply to the next one."""
        messages, self._inbox = self._inbox, []
        now = self._clock()
        requests: list[Request] = []
        for message in messages:
            if type(message) is Submit:
                requests += message.requests
                continue
            engine.admit(requests, now)
            requests = []
            if self._running and isinstance(message, SetLimits):
                self._inbox.append(message)
            else:
                engine.take(message, now)
        engine.admit(requests, now)

    def _start(self, engine: BatchEngine, batch: Batch) -> None:
        seconds = engine.predicted_seconds(batch)
        if self._inline is not None and self._inline.should_inline(
            batch.rows, seconds, self._clock()
        ):
            self._run_inline(engine, batch, self._inline)
            return
        self._running = True
        self._sched_policy.before(seconds)
        self._heartbeat.begin(seconds)
        self._batches.put(batch)
        self._expire(engine)

    def _run_inline(self, engine: BatchEngine, batch: Batch, policy: InlinePolicy) -> None:
        result = engine.run(batch, self._clock, _no_heartbeat)
        self._heartbeat.end()
        engine.complete(result)
        policy.record(result.runs)
        if engine.waiting:
            self._wake()

    def _expire(self, engine: BatchEngine) -> None:
        """End requests whose deadline passes while a batch runs, and wake at the next deadline."""
        expiry = engine.expire(self._clock())
        if expiry is not None:
            self._wake_at(expiry)

    def _post(self, engine: BatchEngine) -> None:
        settled = engine.settled()
        if settled is not None:
            self._port.deliver(settled)

    def _complete(self, result: BatchResult, cpu_seconds: float) -> None:
        """Complete a batch of the thread, and plan the next one."""
        self._running = False
        self._heartbeat.end()
        if self._inline is not None:
            self._inline.record_offloaded(result.runs, cpu_seconds)
        if self._engine is not None:
            self._engine.complete(result)
            if self._hint is None:
                self._step()
            else:
                self._hint.start(result.seconds, self._clock())
                self._post(self._engine)
                self._step_after_reading()
        self._resolve_idle()

    def _step_after_reading(self) -> None:
        """Schedule a turn after the loop has read its sockets: clients that were just answered can join the batch."""
        if not self._scheduled:
            self._scheduled = True
            self._port.loop.call_soon(self._port.loop.call_soon, self._step)

    def _resolve_idle(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    # -- in the thread

    @override
    def open(self) -> ModelInfo:
        self._opened = self._opener(self._clock)
        return self._opened.info

    @override
    def run(self) -> None:
        engine = self._opened.engine
        while (batch := self._batches.get()) is not None:
            cpu_start = time.thread_time()
            result = engine.run(batch, self._clock, self._heartbeat.tick)
            self._port.call(self._complete, result, time.thread_time() - cpu_start)
            del batch, result  # a waiting thread keeps no tensors


def _no_heartbeat() -> None:
    """Skip the heartbeat of a batch in the loop: nothing in the loop can read it meanwhile."""
