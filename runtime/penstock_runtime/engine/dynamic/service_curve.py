"""`BatchServiceCurve`: sums of the service curve over warm-up batches, the prior, and every completed batch."""

from penstock_api.pod_contract import SUMS_PER_SIZE
from penstock_runtime.engine.service_time import ServiceTime, ServiceTimeSums, fit


class BatchServiceCurve:
    """Running sums over batches of rows `b` and seconds `t`; float64, one epoch per engine.

    Each run of the model counts separately, so a split batch counts once per part; failed runs do not count.
    """

    def __init__(self) -> None:
        self._batches = 0.0
        self._rows = 0.0
        self._rows_squared = 0.0
        self._seconds = 0.0
        self._row_seconds = 0.0
        self._seconds_squared = 0.0
        self._by_size: list[float] = []
        self._sums: ServiceTimeSums | None = None
        self._fitted: ServiceTime | None = None

    def note(self, rows: int, seconds: float) -> None:
        """Count one run of the model."""
        self._batches += 1.0
        self._rows += rows
        self._rows_squared += rows * rows
        self._seconds += seconds
        self._row_seconds += rows * seconds
        self._seconds_squared += seconds * seconds
        by_size, at = self._by_size, SUMS_PER_SIZE * (rows - 1).bit_length()
        if at >= len(by_size):
            by_size.extend([0.0] * (at + SUMS_PER_SIZE - len(by_size)))
        by_size[at] += 1.0
        by_size[at + 1] += rows
        by_size[at + 2] += seconds
        self._sums = self._fitted = None

    def sums(self) -> ServiceTimeSums:
        """Return the published sums."""
        if self._sums is None:
            self._sums = ServiceTimeSums(
                batches=self._batches,
                cost_units=self._rows,
                cost_units_squared=self._rows_squared,
                seconds=self._seconds,
                cost_unit_seconds=self._row_seconds,
                seconds_squared=self._seconds_squared,
                by_size=tuple(self._by_size),
            )
        return self._sums

    def service_time(self) -> ServiceTime:
        """Return the line fitted to the sums."""
        if self._fitted is None:
            self._fitted = fit(self.sums())
        return self._fitted
