"""A pod's engine: one batch at a time, and the counters that it publishes. Pure."""

from bisect import bisect_left
from itertools import accumulate
from math import inf

from penstock_api.pod_contract import SUMS_PER_SIZE, CurveSums
from penstock_simulator.batch_time import Noise, ServiceModel

BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.125, 0.15, 0.2, 0.25),
    *(0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0),
)
WARM_UP_SECONDS = 2.0
"""Time after which no larger batch size is measured, as in the runtime."""


class SimulatedEngine:
    """Records the batches of a pod; a batch is counted on the first read after its end."""

    __slots__ = (
        "_by_size", "_counted", "_limit", "_overhead", "_sums", "completed", "counts", "ends", "fills", "firsts", "free_at", "good",
        "lasts", "noise", "queue", "spent", "times",
    )  # fmt: skip

    def __init__(
        self, service: ServiceModel, noise: Noise | None, max_rows: int, objective: float = inf
    ) -> None:
        self.times = tuple(map(service.seconds, range(max_rows + 1)))
        """Median time of a batch of 0, 1, .. rows."""
        self._overhead = service.overhead
        self._limit = objective - service.overhead
        self.noise = None if service.exact else noise
        self._sums = [0.0] * 6
        self._by_size = [0.0] * (SUMS_PER_SIZE * ((max_rows - 1).bit_length() + 1))
        self._counted = 0
        self.counts = [0] * (len(BOUNDS) + 1)
        self.completed = 0
        """Completed requests; `good` counts those within the objective."""
        self.good = 0
        self.free_at = -inf
        self.queue: list[float] = []
        """Arrival times; each batch is a range of this list."""
        self.firsts: list[int] = []
        """By batch, like the next three lists: index of the first request, index after the last, end, and duration in seconds."""
        self.lasts: list[int] = []
        self.ends: list[float] = []
        self.spent: list[float] = []
        self.fills: dict[int, int] = {}
        """Lines of batch work in a batch, by its index; batches without any are absent."""
        self._warm_up(max_rows)

    def _warm_up(self, max_rows: int) -> None:
        """Publish times of 1, 2, 4 .. rows as a prior, as the runtime does before its first request."""
        rows, spent = 1, 0.0
        while spent <= WARM_UP_SECONDS:
            seconds = self._seconds(rows)
            self._add(rows, seconds)
            spent += seconds
            if rows >= max_rows:
                return
            rows = min(2 * rows, max_rows)

    def _seconds(self, rows: int) -> float:
        seconds = self.times[rows]
        return seconds if self.noise is None else seconds * self.noise.factor()

    def _add(self, rows: int, seconds: float) -> None:
        sums = self._sums
        sums[0] += 1.0
        sums[1] += rows
        sums[2] += rows * rows
        sums[3] += seconds
        sums[4] += rows * seconds
        sums[5] += seconds * seconds
        by_size, at = self._by_size, SUMS_PER_SIZE * (rows - 1).bit_length()
        by_size[at] += 1.0
        by_size[at + 1] += rows
        by_size[at + 2] += seconds

    def run(self, first: int, last: int, start: float, lines: int = 0) -> None:
        """Run the requests [first, last) of the queue, and lines of batch work, from `start`."""
        seconds = self._seconds(last - first + lines)
        if lines:
            self.fills[len(self.ends)] = lines
        self.free_at = start + seconds
        self.firsts.append(first)
        self.lasts.append(last)
        self.ends.append(self.free_at)
        self.spent.append(seconds)

    def settle(self, now: float) -> None:
        """Count the batches that are over by `now`."""
        over = len(self.ends) - (1 if self.free_at > now else 0)
        counts, spent, fills = self.counts, self.spent, self.fills
        for batch in range(self._counted, over):
            seconds, first, last = spent[batch], self.firsts[batch], self.lasts[batch]
            self._add(last - first + fills.get(batch, 0), seconds)
            counts[bisect_left(BOUNDS, seconds)] += 1
            self.completed += last - first
            early = self.ends[batch] - self._limit
            self.good += last - bisect_left(self.queue, early, first, last)
        self._counted = max(over, self._counted)

    def running(self, now: float) -> int:
        """Return the rows of requests in the batch that runs at `now`."""
        return self.lasts[-1] - self.firsts[-1] if self.free_at > now else 0

    def lines_running(self, now: float) -> int:
        """Return the lines of batch work in the batch that runs at `now`."""
        return self.fills.get(len(self.ends) - 1, 0) if self.free_at > now else 0

    def busy_seconds(self, now: float) -> float:
        """Return the time spent in batches until `now`, including the running batch's part."""
        self.settle(now)
        part = self.spent[-1] - (self.free_at - now) if self.free_at > now else 0.0
        return self._sums[3] + part

    def curve(self) -> CurveSums:
        """Return the service-curve sums, warm-up first."""
        return CurveSums.model_construct(
            epoch=0,
            batches=self._sums[0],
            cost_units=self._sums[1],
            cost_units_squared=self._sums[2],
            seconds=self._sums[3],
            cost_unit_seconds=self._sums[4],
            seconds_squared=self._sums[5],
            by_size=tuple(self._by_size),
        )

    def buckets(self) -> tuple[tuple[float, float], ...]:
        """Return (upper bound in seconds, cumulative count), the last bound infinite."""
        return tuple(zip((*BOUNDS, inf), map(float, accumulate(self.counts)), strict=True))

    def durations(self) -> tuple[tuple[float, float], ...]:
        """Return completed requests' latencies as `buckets`, with the objective as the only finite bound."""
        whole = (inf, float(self.completed))
        objective = self._limit + self._overhead
        return (whole,) if objective == inf else ((objective, float(self.good)), whole)
