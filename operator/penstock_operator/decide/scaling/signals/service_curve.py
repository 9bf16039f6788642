"""The service curve: the time of a batch as a function of its size, from the counters that pods publish. Pure.

`t(b) = a + c*b` by least squares, from differences of sums alone, without labels or buckets. A percentile comes from
histogram buckets and is bounded by the sums.
"""

from collections.abc import Sequence
from math import inf, isfinite, sqrt
from typing import NamedTuple

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.spec.objectives import LATE_SHARE
from penstock_operator.measured import MEASURED_MAX, measured

AnySums = CurveSums | CurveSumsTuple
"""Sums as published or as a tuple."""
MIN_BATCHES = 8
"""Batches that a fit needs to separate a slope from noise."""
MAX_RELATIVE_ERROR = 0.1
"""The slope is used for b only if its standard error changes t(b) by less than this share."""

MIN_BATCHES_FOR_ERROR = 3
"""Batches that a standard error needs."""
SAME = 1e-6
"""Batch sizes whose variance is below this share of their square count as one size."""


class ServiceCurve(NamedTuple):
    """`seconds = a + c * rows`, with the standard error of the slope."""

    a: float
    c: float
    mean_rows: float
    slope_error: float
    """Standard error of `c`."""

    def seconds(self, rows: float) -> float | None:
        """Return t(rows); None if the slope is too uncertain that far from the mean batch."""
        value = self.a + self.c * rows
        doubt = self.slope_error * abs(rows - self.mean_rows)
        sure = doubt <= MAX_RELATIVE_ERROR * value
        return value if sure and 0 <= value <= MEASURED_MAX else None


def fit(sums: AnySums, least: float = MIN_BATCHES) -> ServiceCurve | None:
    """Return the least-squares line through the batches; None if all sizes are (nearly) equal.

    It needs `least` batches; a warm-up, whose sizes are chosen to determine the slope, needs fewer. A line below 0 at b = 0 is
    refitted through the origin. A falling line is rejected.
    """
    n = sums.batches
    if n < max(least, MIN_BATCHES_FOR_ERROR):
        return None
    mean_rows, mean_seconds = sums.cost_units / n, sums.seconds / n
    spread = sums.cost_units_squared / n - mean_rows**2
    if spread <= SAME * max(mean_rows**2, 1.0):
        return None
    joint = sums.cost_unit_seconds / n - mean_rows * mean_seconds
    c = joint / spread
    a = mean_seconds - c * mean_rows
    if a < 0:
        a, c = 0.0, sums.cost_unit_seconds / sums.cost_units_squared
    noise = max(sums.seconds_squared / n - mean_seconds**2 - c * joint, 0.0)
    error = sqrt(noise / (spread * (n - 2)))
    if c <= 0 or not isfinite(a + c + error):
        return None
    return ServiceCurve(a, c, mean_rows, error)


def r_squared(sums: AnySums) -> float | None:
    """Return the coefficient of determination of the least-squares line, 0 to 1.

    None if all sizes, or all times, are (nearly) equal.
    """
    n = sums.batches
    if n < MIN_BATCHES_FOR_ERROR:
        return None
    rows, seconds = sums.cost_units / n, sums.seconds / n
    spread = sums.cost_units_squared / n - rows**2
    noise = sums.seconds_squared / n - seconds**2
    if spread <= SAME * max(rows**2, 1.0) or noise <= 0:
        return None
    joint = sums.cost_unit_seconds / n - rows * seconds
    return min(joint**2 / (spread * noise), 1.0)


def batch_seconds(sums: AnySums | None, rows: float) -> float | None:
    """Return t(rows): by the fitted line, else the mean batch scaled up to `rows`.

    Above the mean batch the scaled time is an upper estimate, which makes the law slower to raise the cap and to scale down;
    below the mean batch the mean time is used. None without batches.
    """
    if sums is None or sums.batches <= 0:
        return None
    curve = fit(sums)
    fitted = None if curve is None else curve.seconds(rows)
    if fitted is not None:
        return fitted
    mean_rows, mean_seconds = sums.cost_units / sums.batches, sums.seconds / sums.batches
    if mean_rows <= 0:
        return None
    return measured(mean_seconds * max(rows / mean_rows, 1.0))


def quantile(q: float, buckets: Sequence[tuple[float, float]]) -> float | None:
    """Return the q-quantile of (upper bound, cumulative count), as Prometheus' `histogram_quantile`.

    Linear inside a bucket, the lowest of which begins at 0; in the last, infinite bucket it is the
    highest finite bound. None without observations or without an infinite bucket.
    """
    if not buckets or buckets[-1][0] != inf:
        return None
    target = q * buckets[-1][1]
    if target <= 0:
        return None
    low, below = 0.0, 0.0
    for bound, cumulative in buckets:
        if cumulative >= target and cumulative > below:
            share = (target - below) / (cumulative - below)
            return low if bound == inf else low + share * (bound - low)
        low, below = (low if bound == inf else bound), max(cumulative, below)
    return None


def batch_tail_seconds(
    buckets: Sequence[tuple[float, float]], sums: AnySums | None, beyond: float = LATE_SHARE
) -> float | None:
    """Return the batch time in seconds that a share `beyond` of batches exceeds: the 99th percentile for 0.01.

    Interpolation can be wrong by a bucket's width. By Cantelli's inequality a p-quantile is at most mean + sqrt(p / (1 - p))
    standard deviations, so the smaller of the two is the better estimate.
    """
    guessed = quantile(1 - beyond, buckets)
    if guessed is None or sums is None or sums.batches <= 0:
        return guessed
    mean = sums.seconds / sums.batches
    variance = max(sums.seconds_squared / sums.batches - mean**2, 0.0)
    return measured(min(guessed, mean + sqrt((1 - beyond) / beyond * variance)))
