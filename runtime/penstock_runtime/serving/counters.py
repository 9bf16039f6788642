"""`Counters`: the request counters of a pod, and `Histogram`; plain numbers that are rendered on scrape.

Invariant: received = rejected + completed + failed + expired + cancelled + pending.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric

from penstock_runtime.engine.messages import BatchReport
from penstock_runtime.request import RequestOutcome

SECONDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.125, 0.15, 0.2, 0.25,
    0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0,
)  # fmt: skip
"""One millisecond to two minutes, a step of at most a third between 5 ms and 1 s, where objectives are:
the law reads its p99 from these, and an interpolated quantile is as wrong as a step is wide."""

ROWS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)


class Histogram:
    """Counts by upper bound, inclusive as Prometheus has it, and the sum of what was observed."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(float(bound) for bound in bounds)
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def observe_all(self, values: Sequence[float]) -> None:
        """Count many values."""
        for value in values:
            self._counts[bisect_left(self._bounds, value)] += 1
        self.total += sum(values)

    def buckets(self) -> list[tuple[str, float]]:
        """Return (upper bound, cumulative count), ascending; the last bound is `+Inf`."""
        cumulative, rendered = 0, []
        for bound, count in zip((*map(repr, self._bounds), "+Inf"), self._counts, strict=True):
            cumulative += count
            rendered.append((bound, float(cumulative)))
        return rendered


def histogram_family(name: str, text: str, histogram: Histogram) -> Metric:
    """Return a histogram as it is scraped."""
    family = HistogramMetricFamily(name, text)
    family.add_metric([], histogram.buckets(), histogram.total)
    return family


@dataclass(slots=True)
class WorkCounters:
    """Totals of the requests of one kind of work."""

    served: int = 0
    """Rows of completed requests, or generated tokens."""
    rejected: Counter[str] = field(default_factory=Counter)
    ended: Counter[RequestOutcome] = field(default_factory=Counter)


@dataclass(slots=True)
class Counters:
    """Totals since the process started."""

    received: int = 0
    """Requests, counted on arrival before any check."""
    rows_received: float = 0.0
    """Rows of those requests that are no batch work; a body that was rejected unread counts the mean of the bodies that were read."""
    parsed: int = 0
    interactive: WorkCounters = field(default_factory=WorkCounters)
    batch: WorkCounters = field(default_factory=WorkCounters)
    """Of batch work, which no objective counts."""
    request_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """Duration of completed requests without batch work, from arrival to end."""
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

    @property
    def rejected(self) -> Counter[str]:
        """Rejections of all work, by reason."""
        return self.interactive.rejected + self.batch.rejected

    @property
    def ended(self) -> Counter[RequestOutcome]:
        """Ends of all work, by outcome."""
        return self.interactive.ended + self.batch.ended

    def of(self, *, batch_work: bool) -> WorkCounters:
        """Return the counters of batch work, or of all other work."""
        return self.batch if batch_work else self.interactive

    def settled(self) -> int:
        """Return how many requests were rejected or ended."""
        return self.rejected.total() + self.ended.total()
