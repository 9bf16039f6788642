"""`BatchDrain`: rejects the requests that the service curve does not predict to finish by the deadline of a drain."""

from collections.abc import Iterator

from penstock_runtime.engine.dynamic.request_ledger import RequestLedger
from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.messages import Drain
from penstock_runtime.request import Request


class BatchDrain:
    """Owns the drain in force, and rejects nothing before one starts.

    `cap` is the number of rows per batch, `now` a time of the monotonic clock.
    """

    def __init__(self, ledger: RequestLedger, curve: BatchServiceCurve) -> None:
        self._ledger = ledger
        self._curve = curve
        self._drain: Drain | None = None

    @property
    def active(self) -> bool:
        """Whether a drain has started."""
        return self._drain is not None

    def start(self, drain: Drain) -> None:
        """Apply `drain` from now on."""
        self._drain = drain

    def check_queued(self, request: Request, cap: int, now: float) -> None:
        """Reject a request that was just queued if the queue, up to and including it, does not finish in time."""
        drain = self._drain
        if drain is not None and not self._finishes(drain, self._ledger.waiting.rows, cap, now):
            self._ledger.end(request.id, drain.rejection())

    def check_all(self, cap: int, now: float) -> None:
        """Reject the waiting requests that do not finish in time when all are served in order."""
        drain, rows = self._drain, self._ledger.waiting.rows
        if drain is None or self._finishes(drain, rows, cap, now):
            return
        for request in list(self._late(drain, cap, now)):
            self._ledger.end(request.id, drain.rejection())

    def _late(self, drain: Drain, cap: int, now: float) -> Iterator[Request]:
        rows = 0
        for request in self._ledger.waiting.in_order():
            if self._finishes(drain, rows + request.rows, cap, now):
                rows += request.rows
            else:
                yield request

    def _finishes(self, drain: Drain, rows: int, cap: int, now: float) -> bool:
        """Return whether `rows`, served from `now` in batches of `cap`, finish before the deadline."""
        return now + self._curve.service_time().seconds_for_all(rows, cap) < drain.deadline
