"""`BatchReporter`: the report of a batch engine after each step, and its record of the running batch."""

from penstock_runtime.engine.dynamic.batch_former import Batch
from penstock_runtime.engine.dynamic.execution import BatchResult
from penstock_runtime.engine.dynamic.memory_bound import MemoryBounds
from penstock_runtime.engine.dynamic.request_ledger import RequestLedger
from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.messages import BatchReport, EngineReport, Settled


class BatchReporter:
    """Records when batches begin and complete, and reports what has changed since the last report.

    `generation` is that of the limits that the next batch follows.
    """

    def __init__(
        self, ledger: RequestLedger, bounds: MemoryBounds, curve: BatchServiceCurve
    ) -> None:
        self._ledger = ledger
        self._bounds = bounds
        self._curve = curve
        self._busy_seconds = 0.0
        self._running = 0
        """Requests in the running batch."""
        self._running_generation = 0
        """Generation of the limits that the running batch was formed under."""
        self._began: tuple[str, ...] = ()
        """Ids of the running batch, until they are reported."""
        self._completed: BatchReport | None = None
        """The last completed batch, until it is reported."""
        self._reported: tuple[int, int] | None = None

    def begin(self, batch: Batch, generation: int) -> None:
        """Record that a batch runs from now on."""
        self._began = tuple([request.id for request in batch.requests])
        self._running, self._running_generation = len(self._began), generation

    def complete(self, result: BatchResult) -> None:
        """Record that the running batch has ended."""
        self._busy_seconds += result.seconds
        self._running = 0
        self._completed = BatchReport(
            requests=len(result.batch.requests),
            rows=result.batch.rows,
            seconds=result.seconds,
            out_of_memory_splits=result.out_of_memory_splits,
        )

    def settled(self, generation: int) -> Settled | None:
        """Return what has ended or changed since the last call, or None without a change."""
        ends, completed = self._ledger.collect(), self._completed
        state = (generation, self._running)
        if not ends and completed is None and state == self._reported:
            return None
        began, self._began = self._began, ()
        self._reported, self._completed = state, None
        return Settled(ends, completed, self.report(generation), began)

    def report(self, generation: int) -> EngineReport:
        """Return the state of the engine."""
        return EngineReport(
            waiting=len(self._ledger.waiting),
            running=self._running,
            generation=generation,
            converging=self._running > 0 and self._running_generation < generation,
            batch_cap_bound=self._bounds.rows,
            busy_seconds=self._busy_seconds,
            curve=self._curve.sums(),
        )
