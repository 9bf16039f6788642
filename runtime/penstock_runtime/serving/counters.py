"""What the HTTP side counts: plain numbers, written on the way of a request, read on scrape.

Always: received = refused + completed + failed + expired + cancelled + those still here.
"""

from collections import Counter
from dataclasses import dataclass, field

from penstock_runtime.engine.messages import BatchReport
from penstock_runtime.request import RequestOutcome
from penstock_runtime.serving.histogram import ROWS, SECONDS, Histogram


@dataclass(slots=True)
class Counters:
    """Since the process started."""

    received: int = 0
    """Requests, counted at the door before anything else is looked at."""
    rows_received: float = 0.0
    """Rows of those; of a body that was refused unread, the mean of the bodies that were read."""
    parsed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    ended: dict[RequestOutcome, int] = field(
        default_factory=lambda: dict.fromkeys(RequestOutcome, 0)
    )
    request_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """Of completed requests, from the door to their end."""
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
        """Count a body that was refused unread at the mean of those read; one row before the first."""
        self.rows_received += self._rows_parsed / self.parsed if self.parsed else 1.0

    def count_batch(self, batch: BatchReport) -> None:
        """Count one settled batch."""
        self.batch_rows.observe(batch.rows)
        self.batch_seconds.observe(batch.seconds)
        self.out_of_memory_splits += batch.out_of_memory_splits

    def settled(self) -> int:
        """Return how many requests were refused or ended."""
        return self.refused.total() + sum(self.ended.values())
