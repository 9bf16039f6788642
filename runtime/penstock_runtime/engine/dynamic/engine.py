"""`BatchEngine`: the queue, the running batch and the limits of a batch engine; every request ends exactly once.

It has no thread, clock or socket: messages and `now` come in, `Settled` values go out.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

from penstock_api.limits import MAX_BATCH_SIZE, LimitsUpdate
from penstock_runtime.engine.dynamic.arrival_rate import ArrivalRate
from penstock_runtime.engine.dynamic.batch_former import (
    ArrivalForecast,
    Batch,
    BatchLimits,
    Placement,
    form_batch,
)
from penstock_runtime.engine.dynamic.drain import finishes, unreachable
from penstock_runtime.engine.dynamic.execution import BatchResult, execute
from penstock_runtime.engine.dynamic.memory_bound import MemoryBounds
from penstock_runtime.engine.dynamic.request_ledger import RequestLedger
from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.messages import (
    BatchReport,
    Cancel,
    Drain,
    EngineReport,
    SetLimits,
    Settled,
    Submit,
    ToEngine,
)
from penstock_runtime.engine.model import Model
from penstock_runtime.engine.queue.queue import WaitingRequests
from penstock_runtime.request import Cancelled, Expired, Failed, Request


class BatchEngine:
    """Computes rows, one batch at a time."""

    def __init__(
        self, model: Model, limits: LimitsUpdate, memory_bound_rows: int, curve: BatchServiceCurve
    ):
        self._model = model
        self._limits = limits
        self._curve = curve
        rows = max(1, min(memory_bound_rows, model.info.max_rows, MAX_BATCH_SIZE))
        self._bounds = MemoryBounds(rows, model.info)
        self._waiting = WaitingRequests(limits.discipline)
        self._arrivals = ArrivalRate()
        self._ledger = RequestLedger()
        self._drain: Drain | None = None
        self._running: Batch | None = None
        self._running_generation = limits.generation
        self._began: tuple[str, ...] = ()
        """Ids of the running batch, until they are reported."""
        self._settled_batch: BatchReport | None = None
        self._busy_seconds = 0.0
        self._reported: tuple[int, int] | None = None

    # -- in

    def take(self, message: ToEngine, now: float) -> None:
        """Take one message; it affects the next batch."""
        match message:
            case Submit(requests):
                self.admit(requests, now)
            case Cancel(ids):
                self._cancel(ids)
            case SetLimits(update):
                self._limits = update
                self._waiting.change_discipline(update.discipline)
            case Drain():
                self._drain = message
                self._shed(now)
            case _:
                assert_never(message)

    def admit(self, requests: Iterable[Request], now: float) -> None:
        """Add requests, in this order."""
        rows = 0
        for request in requests:
            self._ledger.open(request)
            rows += request.rows
            if request.deadline is not None and request.deadline <= now:
                self._ledger.end(request.id, Expired(now - request.arrived))
                continue
            self._waiting.add(request)
            if self._drain is not None:
                self._admit_to_drain(request, self._drain, now)
        self._arrivals.note(rows, now)

    def _admit_to_drain(self, request: Request, drain: Drain, now: float) -> None:
        service_time = self._curve.service_time()
        if not finishes(drain, self._waiting.rows, self.cap, service_time, now):
            self._waiting.remove(request.id)
            self._ledger.end(request.id, drain.rejection())

    def _cancel(self, ids: tuple[str, ...]) -> None:
        """End the pending requests of these ids; the answer of a running one is dropped."""
        for name in ids:
            self._waiting.remove(name)
            if name in self._ledger:
                self._ledger.end(name, Cancelled())

    def _shed(self, now: float) -> None:
        """While draining, fail the requests that are not predicted to finish in time, the last in order first."""
        drain = self._drain
        if drain is None:
            return
        service_time = self._curve.service_time()
        if finishes(drain, self._waiting.rows, self.cap, service_time, now):
            return
        in_order = self._waiting.in_order()
        for request in unreachable(drain, in_order, self.cap, service_time, now):
            self._waiting.remove(request.id)
            self._ledger.end(request.id, drain.rejection())

    # -- a step

    @property
    def cap(self) -> int:
        """Rows that the next batch may have: the limit, or the bound that memory and program set; of some shapes fewer."""
        return min(self._limits.max_batch_size, self._bounds.rows)

    def plan(self, now: float) -> Placement:
        """Expire what is overdue, then form the next batch, which from now on runs."""
        self.expire(now)
        self._shed(now)
        placement = form_batch(self._waiting, self._forming_limits(), self._outlook(now), now)
        if isinstance(placement, Batch):
            self._running = placement
            self._running_generation = self._limits.generation
            self._began = tuple([request.id for request in placement.requests])
        return placement

    def expire(self, now: float) -> None:
        """End those whose deadline has passed."""
        for request in self._waiting.expire(now):
            self._ledger.end(request.id, Expired(now - request.arrived))

    def next_expiry(self) -> float | None:
        """Return the earliest deadline of those that wait."""
        return self._waiting.next_expiry()

    def _forming_limits(self) -> BatchLimits:
        """Return the limits of the next batch; a draining engine has no batch window."""
        delay = 0 if self._drain else self._limits.max_queue_delay_milliseconds
        return BatchLimits(self.cap, delay / 1000, self._bounds.of_shape)

    def may_hold_batch(self) -> bool:
        """Return whether the next batch has room for more than the waiting rows, and the limits have a batch window."""
        limits = self._forming_limits()
        return limits.window_seconds > 0.0 and self._waiting.rows < limits.cap

    def _outlook(self, now: float) -> ArrivalForecast:
        """Forecast new arrivals; a client that waits for its answer sends no more."""
        newcomers = self._arrivals.rows_per_second(now, besides=self._waiting.rows)
        return ArrivalForecast(self._curve.service_time(), newcomers)

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return len(self._waiting)

    def predicted_seconds(self, batch: Batch) -> float:
        """Return how long `batch` should take by the service curve."""
        return self._curve.service_time().seconds_for_all(batch.rows, batch.cap)

    def run(
        self, batch: Batch, clock: Callable[[], float], pulse: Callable[[], None]
    ) -> BatchResult:
        """Run `batch` on the model; the engine changes only at `complete`."""
        return execute(self._model, batch, clock, pulse)

    def complete(self, ran: BatchResult) -> None:
        """Record the result of the running batch; requests that were cancelled meanwhile have ended already."""
        self._ledger.end_all(ran.ends)
        for rows, seconds in ran.runs:
            self._curve.note(rows, seconds)
        self._bounds.learn(ran)
        self._busy_seconds += ran.seconds
        self._running = None
        self._settled_batch = BatchReport(
            requests=len(ran.batch.requests),
            rows=ran.batch.rows,
            seconds=ran.seconds,
            out_of_memory_splits=ran.out_of_memory_splits,
        )

    # -- out

    def settled(self) -> Settled | None:
        """Return what has ended or changed since the last call; None without a change."""
        ends, batch = self._ledger.collect(), self._settled_batch
        state = (self._limits.generation, self._running_requests)
        if not ends and batch is None and state == self._reported:
            return None
        began, self._began = self._began, ()
        self._reported, self._settled_batch = state, None
        return Settled(ends, batch, self.report(), began)

    def report(self) -> EngineReport:
        """Return the state of the engine."""
        return EngineReport(
            waiting=len(self._waiting),
            running=self._running_requests,
            generation=self._limits.generation,
            converging=self._running is not None
            and self._running_generation < self._limits.generation,
            batch_cap_bound=self._bounds.rows,
            busy_seconds=self._busy_seconds,
            curve=self._curve.sums(),
        )

    @property
    def _running_requests(self) -> int:
        return 0 if self._running is None else len(self._running.requests)

    def fail_all(self, reason: str, retry_after_seconds: float) -> None:
        """End all pending requests: the engine is about to close."""
        for name in self._ledger.held():
            self._waiting.remove(name)
            self._ledger.end(name, Failed(reason, retry_after_seconds))
