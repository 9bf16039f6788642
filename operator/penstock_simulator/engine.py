"""A pod's engine: one batch at a time, and the counters it publishes. Pure."""

from bisect import bisect_left
from math import inf

from penstock_api.limits import CurveSums
from penstock_simulator.service import Noise, ServiceModel

BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.125, 0.15, 0.2, 0.25),
    *(0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0),
)
WARM_UP_SECONDS = 2.0
"""As the runtime: no size is begun after this long."""


class Engine:
    """Runs batches and remembers them; `end` of a batch is known when it begins, counted when it is over."""

    __slots__ = ("_noise", "_open", "_service", "_sums", "counts", "ends", "firsts", "free_at", "lasts")  # fmt: skip

    def __init__(self, service: ServiceModel, noise: Noise | None, max_rows: int) -> None:
        self._service = service
        self._noise = None if service.exact else noise
        self._sums = [0.0] * 6
        self._open: tuple[int, float] | None = None
        self.counts = [0] * (len(BOUNDS) + 1)
        self.free_at = -inf
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.ends: list[float] = []
        self._warm_up(max_rows)

    def _warm_up(self, max_rows: int) -> None:
        """Publish times of 1, 2, 4 .. rows as a prior, as the runtime does before its first request."""
        rows, spent = 1, 0.0
        while spent <= WARM_UP_SECONDS:
            seconds = self._seconds(rows)
            self._note(rows, seconds)
            spent += seconds
            if rows >= max_rows:
                return
            rows = min(2 * rows, max_rows)

    def _seconds(self, rows: int) -> float:
        seconds = self._service.a + self._service.c * rows
        return seconds if self._noise is None else seconds * self._noise.factor()

    def _note(self, rows: int, seconds: float) -> None:
        sums = self._sums
        sums[0] += 1.0
        sums[1] += rows
        sums[2] += rows * rows
        sums[3] += seconds
        sums[4] += rows * seconds
        sums[5] += seconds * seconds

    def run(self, first: int, last: int, start: float) -> float:
        """Run the requests [first, last) of the queue from `start`, and return when they are done."""
        self.settle(start)
        rows = last - first
        seconds = self._seconds(rows)
        self._open = (rows, seconds)
        self.free_at = start + seconds
        self.firsts.append(first)
        self.lasts.append(last)
        self.ends.append(self.free_at)
        return self.free_at

    def settle(self, now: float) -> None:
        """Count the batch that is over by `now`."""
        if self._open is not None and self.free_at <= now:
            rows, seconds = self._open
            self._note(rows, seconds)
            self.counts[bisect_left(BOUNDS, seconds)] += 1
            self._open = None

    def running(self, now: float) -> int:
        """Return the rows in the batch that runs at `now`."""
        return self._open[0] if self._open is not None and self.free_at > now else 0

    def busy_seconds(self, now: float) -> float:
        """Return the time spent in batches until `now`, the running one's part included."""
        self.settle(now)
        part = 0.0 if self._open is None else self._open[1] - (self.free_at - now)
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
        )

    def buckets(self) -> tuple[tuple[float, float], ...]:
        """Return (upper bound in seconds, cumulative count), the last bound infinite."""
        cumulative, found = 0, []
        for bound, count in zip((*BOUNDS, inf), self.counts, strict=True):
            cumulative += count
            found.append((bound, float(cumulative)))
        return tuple(found)
