"""`ServiceTime`: the predicted duration of a batch, a straight line fitted to the sums that the engine publishes."""

from msgspec import Struct

from penstock_api.pod_contract import CurveSums

_FLAT = 1e-12
"""Relative spread below which all sizes count as equal, so that they determine no slope."""


class ServiceTimeSums(Struct, frozen=True):
    """`CurveSums` as a Struct, since the engine creates one per batch."""

    batches: float = 0.0
    cost_units: float = 0.0
    cost_units_squared: float = 0.0
    seconds: float = 0.0
    cost_unit_seconds: float = 0.0
    seconds_squared: float = 0.0
    by_size: tuple[float, ...] = ()


class ServiceTime(Struct, frozen=True):
    """`seconds = fixed_seconds + row_seconds * rows`; both at least 0."""

    fixed_seconds: float
    row_seconds: float

    def seconds(self, rows: float) -> float:
        """Return the predicted time of one batch of `rows`."""
        return self.fixed_seconds + self.row_seconds * rows

    def seconds_for_all(self, rows: int, cap: int) -> float:
        """Return the predicted time of `rows` in full batches of `cap`, one after another."""
        return -(-rows // cap) * self.fixed_seconds + self.row_seconds * rows


UNKNOWN = ServiceTime(0.0, 0.0)
"""Prediction before the first measurement: no time, so that no request is rejected or held on a guess."""


def fit(sums: CurveSums | ServiceTimeSums) -> ServiceTime:
    """Return the least-squares line through `sums`, or their mean if the slope is undefined or negative.

    The slope is undefined if all batches have one size, and negative if larger batches took less time. With a
    negative intercept, the result is the line through the origin.
    """
    n, b, t = sums.batches, sums.cost_units, sums.seconds
    if n <= 0:
        return UNKNOWN
    spread = n * sums.cost_units_squared - b * b
    if spread <= _FLAT * b * b:
        return ServiceTime(t / n, 0.0)
    slope = (n * sums.cost_unit_seconds - b * t) / spread
    if slope <= 0.0:
        return ServiceTime(t / n, 0.0)
    fixed = (t - slope * b) / n
    if fixed < 0.0:
        return ServiceTime(0.0, sums.cost_unit_seconds / sums.cost_units_squared)
    return ServiceTime(fixed, slope)
