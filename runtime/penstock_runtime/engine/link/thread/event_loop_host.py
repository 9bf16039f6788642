"""`EventLoopHost`: a batch engine whose bookkeeping runs in the event loop and whose batches run in a thread.

The bookkeeping takes microseconds, so it needs no lock and a request is queued as soon as it is sent.
Passing a batch to the thread costs two thread switches, each of which waits for the GIL. A batch on a CPU that is
predicted to be shorter than that runs in the loop, as long as the predictions hold.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from typing_extensions import override

from penstock_runtime.engine.dynamic.batch_former import Batch, WaitUntil
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.dynamic.execution import BatchResult
from penstock_runtime.engine.dynamic.opening import OpenedBatchEngine
from penstock_runtime.engine.link.base import Heartbeat
from penstock_runtime.engine.link.heartbeat import ThreadHeartbeat
from penstock_runtime.engine.link.thread.batch_thread import BatchThread
from penstock_runtime.engine.link.thread.inbox import LoopInbox
from penstock_runtime.engine.link.thread.inline_policy import InlinePolicy, MoreComingHint
from penstock_runtime.engine.link.thread.link import EngineHost, EventLoopPort
from penstock_runtime.engine.link.thread.turns import TurnScheduler
from penstock_runtime.engine.messages import Settled, ToEngine
from penstock_runtime.engine.model import ModelInfo


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
        self._heartbeat = ThreadHeartbeat(clock)
        self._thread = BatchThread(clock, self._heartbeat)
        self._inbox = LoopInbox()
        self._closing = False
        self._engine: BatchEngine | None = None
        """None: the model is not loaded, or the engine has ended."""
        self._opened: OpenedBatchEngine
        self._port: EventLoopPort[Settled]
        self._turns: TurnScheduler

    # -- in the loop

    @override
    def connect(self, port: EventLoopPort[Settled]) -> None:
        self._port = port
        self._turns = TurnScheduler(port.loop, self._clock, self._turn, port.die)

    @override
    def begin(self) -> None:
        info, self._engine = self._opened.info, self._opened.engine
        if info.has_free_dimensions or info.backend != "cpu":
            # the number of rows does not predict the time, or the loop would wait for a device
            self._inline = None
        self._post(self._engine)
        self._turns.soon()

    @override
    def send(self, message: ToEngine) -> None:
        """Take a message; those of one iteration of the loop reach the engine together."""
        self._inbox.add(message)
        if self._engine is not None:
            self._turns.soon()

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
        self._engine = None
        self._thread.abandon()

    @override
    async def close(self, timeout_seconds: float) -> None:
        self._closing = True
        await self._thread.wait_until_idle(timeout_seconds)
        if self._engine is not None:
            self._inbox.hand_over(self._engine, self._clock(), running=self._thread.busy)
            self._engine.fail_all("the engine was closed", retry_after_seconds=1.0)
            self._post(self._engine)
        self._thread.close()

    def _turn(self) -> None:
        """Take messages; when the model is free, form the next batch and run it or submit it to the thread."""
        engine = self._engine
        if engine is None:  # it has ended since this turn was scheduled
            return
        self._inbox.hand_over(engine, self._clock(), running=self._thread.busy)
        if self._thread.busy or self._closing:
            self._expire(engine)
        elif self._hint is not None and self._hint.holds(engine, self._clock()):
            self._turns.at(self._hint.until)
        else:
            placement = engine.plan(self._clock())
            if isinstance(placement, Batch):
                self._start(engine, placement)
            elif isinstance(placement, WaitUntil):
                self._turns.at(placement.time)
        self._post(engine)

    def _start(self, engine: BatchEngine, batch: Batch) -> None:
        seconds, policy = engine.predicted_seconds(batch), self._inline
        if policy is not None and policy.should_inline(batch.rows, seconds, self._clock()):
            self._run_inline(engine, batch, policy)
        else:
            self._thread.submit(batch, seconds)
            self._expire(engine)

    def _run_inline(self, engine: BatchEngine, batch: Batch, policy: InlinePolicy) -> None:
        result = engine.run(batch, self._clock, _no_heartbeat)
        self._heartbeat.end()
        engine.complete(result)
        policy.record(result.runs)
        if engine.waiting:
            self._turns.soon()

    def _expire(self, engine: BatchEngine) -> None:
        """End requests whose deadline passes while a batch runs, and schedule a turn at the next deadline."""
        expiry = engine.expire(self._clock())
        if expiry is not None:
            self._turns.at(expiry)

    def _post(self, engine: BatchEngine) -> None:
        settled = engine.settled()
        if settled is not None:
            self._port.deliver(settled)

    def _complete(self, result: BatchResult, cpu_seconds: float) -> None:
        """Complete a batch of the thread, and plan the next one."""
        self._thread.end_batch()
        if self._inline is not None:
            self._inline.record_offloaded(result.runs, cpu_seconds)
        if self._engine is None:
            return
        self._engine.complete(result)
        if self._hint is None:
            self._turns.run()
        else:
            self._hint.start(result.seconds, self._clock())
            self._post(self._engine)
            self._turns.after_reading()

    # -- in the thread

    @override
    def open(self) -> ModelInfo:
        self._opened = self._opener(self._clock)
        return self._opened.info

    @override
    def run(self) -> None:
        self._thread.run(self._opened.engine, partial(self._port.call, self._complete))


def _no_heartbeat() -> None:
    """Skip the heartbeat of a batch in the loop, which cannot read it during the batch."""
