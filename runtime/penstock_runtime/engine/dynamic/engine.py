"""`BatchEngine`: the queue, the limits and the next batch of a batch engine; every request ends exactly once.

It has no thread, clock or socket: messages and `now` come in, `Settled` values go out.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

from penstock_api.pod_contract import MAX_BATCH_SIZE, LimitsUpdate
from penstock_runtime.engine.dynamic.batch_former import (
    ArrivalForecast,
    ArrivalRate,
    Batch,
    BatchLimits,
    Placement,
    form_batch,
)
from penstock_runtime.engine.dynamic.drain import BatchDrain
from penstock_runtime.engine.dynamic.execution import BatchResult, execute
from penstock_runtime.engine.dynamic.memory_bound import MemoryBounds
from penstock_runtime.engine.dynamic.reporting import BatchReporter
from penstock_runtime.engine.dynamic.request_ledger import RequestLedger
from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.messages import (
    Cancel,
    Drain,
    EngineReport,
    SetLimits,
    Settled,
    Submit,
    ToEngine,
)
from penstock_runtime.engine.model import Model
from penstock_runtime.request import Cancelled, Failed, Request


class BatchEngine:
    """Runs requests in batches, one batch at a time."""

    def __init__(
        self, model: Model, limits: LimitsUpdate, memory_bound_rows: int, curve: BatchServiceCurve
    ) -> None:
        self._model = model
        self._limits = limits
        self._curve = curve
        rows = max(1, min(memory_bound_rows, model.info.max_rows, MAX_BATCH_SIZE))
        self._bounds = MemoryBounds(rows, model.info)
        self._ledger = RequestLedger(limits.discipline)
        self._arrivals = ArrivalRate()
        self._drain = BatchDrain(self._ledger, curve)
        self._reporter = BatchReporter(self._ledger, self._bounds, curve)

    # -- messages

    def take(self, message: ToEngine, now: float) -> None:
        """Process one message; it takes effect with the next batch."""
        match message:
            case Submit(requests):
                self.admit(requests, now)
            case Cancel(ids):
                for name in ids:
                    self._ledger.end(name, Cancelled())
            case SetLimits(update):
                self._limits = update
                self._ledger.waiting.change_discipline(update.discipline)
            case Drain():
                self._drain.start(message)
                self._drain.check_all(self.cap, now)
            case _:
                assert_never(message)

    def admit(self, requests: Iterable[Request], now: float) -> None:
        """Add requests, in this order."""
        rows, draining = 0, self._drain.active
        for request in requests:
            rows += request.rows
            if self._ledger.open(request, now) and draining:
                self._drain.check_queued(request, self.cap, now)
        self._arrivals.note(rows, now)

    def fail_all(self, reason: str, retry_after_seconds: float) -> None:
        """Fail all pending requests, before the engine closes."""
        for name in self._ledger.pending():
            self._ledger.end(name, Failed(reason, retry_after_seconds))

    # -- a step

    @property
    def cap(self) -> int:
        """Rows per batch: the limit, or the bound of memory and program; some shapes have a smaller bound."""
        return min(self._limits.max_batch_size, self._bounds.rows)

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return len(self._ledger.waiting)

    def plan(self, now: float) -> Placement:
        """Expire overdue requests, then form the next batch, which runs from now on."""
        self._ledger.expire(now)
        if self._drain.active:
            self._drain.check_all(self.cap, now)
        placement = form_batch(self._ledger.waiting, self._next_limits(), self._forecast(now), now)
        if isinstance(placement, Batch):
            self._reporter.begin(placement, self._limits.generation)
        return placement

    def expire(self, now: float) -> float | None:
        """Expire overdue requests; return the earliest deadline of those that still wait."""
        self._ledger.expire(now)
        return self._ledger.waiting.next_expiry()

    def may_hold_batch(self) -> bool:
        """Return whether the limits have a batch window, and the next batch has room for more rows than wait."""
        limits = self._next_limits()
        return limits.window_seconds > 0.0 and self._ledger.waiting.rows < limits.cap

    def _next_limits(self) -> BatchLimits:
        """Return the limits of the next batch; a draining engine has no batch window."""
        delay = 0 if self._drain.active else self._limits.max_queue_delay_milliseconds
        return BatchLimits(self.cap, delay / 1000, self._bounds.of_shape)

    def _forecast(self, now: float) -> ArrivalForecast:
        """Forecast arrivals without the waiting rows: a client that waits for a response sends no more requests."""
        rate = self._arrivals.rows_per_second(now, excluding=self._ledger.waiting.rows)
        return ArrivalForecast(self._curve.service_time(), rate)

    def predicted_seconds(self, batch: Batch) -> float:
        """Return the duration of `batch` that the service curve predicts."""
        return self._curve.service_time().seconds_for_all(batch.rows, batch.cap)

    def run(
        self, batch: Batch, clock: Callable[[], float], tick: Callable[[], None]
    ) -> BatchResult:
        """Run `batch` on the model; the engine changes only at `complete`."""
        return execute(self._model, batch, clock, tick)

    def complete(self, result: BatchResult) -> None:
        """Record the result of the running batch; requests that were cancelled during the run have already ended."""
        self._ledger.end_all(result.ends)
        for rows, seconds in result.runs:
            self._curve.note(rows, seconds)
        self._bounds.learn(result)
        self._reporter.complete(result)

    # -- reports

    def settled(self) -> Settled | None:
        """Return what has ended or changed since the last call, or None without a change."""
        return self._reporter.settled(self._limits.generation)

    def report(self) -> EngineReport:
        """Return the state of the engine."""
        return self._reporter.report(self._limits.generation)
