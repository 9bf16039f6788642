"""`Counters`: the request counters of a pod, plain numbers that are rendered on scrape.

Invariant: received = rejected + completed + failed + expired + cancelled + pending.
"""

from collections import Counter
from dataclasses import dataclass, field

from penstock_runtime.engine.messages import BatchReport
from penstock_runtime.request import RequestOutcome
from penstock_runtime.serving.histogram import ROWS, SECONDS, Histogram


@dataclass(slots=True)
class Counters:
    """Totals since the process started."""

    received: int = 0
    """Requests, counted on arrival before any check."""
    rows_received: float = 0.0
    """Rows of those requests; a body that was rejected unread counts the mean of the bodies that were read."""
    parsed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    ended: dict[RequestOutcome, int] = field(
        default_factory=lambda: dict.fromkeys(RequestOutcome, 0)
    )
    request_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """Duration of completed requests, from arrival to end."""
    queue_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    batch_rows: Histogram = field(default_factory=lambda: Histogram(ROWS))
    batch_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    out_of_memory_splits: int = 0
    _rows_parsed: float = 0.0

    def count_rows(self, rows: int) -> None:
        """Count the rows of a body that was read."""
        self.parsed += 1
        self._rows_parsed += rows
        self.rows_received += rows

    def count_unread_rows(self) -> None:
        """Count a body that was rejected unread at the mean of those read; one row before the first."""
        self.rows_received += self._rows_parsed / self.parsed if self.parsed else 1.0

    def count_batch(self, batch: BatchReport) -> None:
        """Count one completed batch."""
        self.batch_rows.observe(batch.rows)
        self.batch_seconds.observe(batch.seconds)
        self.out_of_memory_splits += batch.out_of_memory_splits

    def settled(self) -> int:
        """Return how many requests were rejected or ended."""
        return self.rejected.total() + sum(self.ended.values())
