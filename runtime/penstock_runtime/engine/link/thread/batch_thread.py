"""`BatchThread`: the thread that runs batches for an engine whose bookkeeping is in the event loop."""

import asyncio
import time
from collections.abc import Callable
from queue import SimpleQueue

from penstock_runtime.engine.dynamic.batch_former import Batch
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.dynamic.execution import BatchResult
from penstock_runtime.engine.link.heartbeat import ThreadHeartbeat
from penstock_runtime.engine.link.thread.cpu_priority import BatchSchedPolicy


class BatchThread:
    """Tracks whether the thread has a batch, and sets the event loop's scheduling policy while it has."""

    def __init__(self, clock: Callable[[], float], heartbeat: ThreadHeartbeat) -> None:
        self._clock = clock
        self._heartbeat = heartbeat
        self._sched_policy = BatchSchedPolicy()
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        """None ends the thread."""
        self._idle: asyncio.Future[None] | None = None
        """Done once the batch has ended; set by `wait_until_idle`."""
        self.busy = False
        """Whether the thread has a batch."""

    # -- in the loop

    def submit(self, batch: Batch, predicted_seconds: float) -> None:
        """Run `batch` in the thread."""
        self.busy = True
        self._sched_policy.before(predicted_seconds)
        self._heartbeat.begin(predicted_seconds)
        self._batches.put(batch)

    def end_batch(self) -> None:
        """Record that the batch has ended."""
        self.busy = False
        self._heartbeat.end()
        idle = self._idle
        if idle is not None and not idle.done() and not idle.get_loop().is_closed():
            idle.set_result(None)

    async def wait_until_idle(self, timeout_seconds: float) -> None:
        """Wait for the end of the batch, if there is one, for at most `timeout_seconds`."""
        if self.busy:
            self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._idle], timeout=timeout_seconds)

    def close(self) -> None:
        """End the thread after its batch, and restore the scheduling policy of the event loop."""
        self._sched_policy.end()
        self._batches.put(None)

    def abandon(self) -> None:
        """Disregard the running batch, and end the thread after it; callable from any thread."""
        self.end_batch()
        self._batches.put(None)

    # -- in the thread

    def run(self, engine: BatchEngine, completed: Callable[[BatchResult, float], None]) -> None:
        """Run batches until `close`; `completed` receives each result and its CPU time in seconds."""
        while (batch := self._batches.get()) is not None:
            cpu_start = time.thread_time()
            result = engine.run(batch, self._clock, self._heartbeat.tick)
            completed(result, time.thread_time() - cpu_start)
            del batch, result  # a waiting thread keeps no tensors
