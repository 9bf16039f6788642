"""The capacity model of pods of one revision: the time of a batch of any size, and the capacity. Pure.

A device that is busy all the time runs batch after batch and serves b / t(b) rows a second. If it does not
(docs/design/control-law.md#data), something else keeps it busy, the pod pauses between batches, or the curve is wrong; the
pool then reports that its capacity is uncertain (`off_curve`).
"""

from collections.abc import Sequence
from functools import cache
from math import ceil, floor, inf, sqrt
from statistics import NormalDist
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    PodCurve,
    add_sums,
    fit_line,
    spread,
)
from penstock_operator.decide.scaling.law import CurveInUse
from penstock_operator.decide.scaling.polyline import Polyline, means, polyline
from penstock_operator.decide.scaling.signals.aggregates import MeasuredService
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.scaling.signals.service_curve import (
    ServiceCurve,
    batch_seconds,
    r_squared,
)
from penstock_operator.decide.spec.objectives import LATE_SHARE
from penstock_operator.measured import measured

MAX_EXTRAPOLATION = 1.25
"""Maximum planned batch over the largest measured one."""
MAX_MISFIT, MISFIT_OF_ONE = 0.03, 0.15
"""Difference of a class's mean time from the line, as a share of it, above which no line describes the device; for a single
batch, whose time is uncertain."""
MAX_TAIL_RATIO = 3.0
"""Upper bound of the ratio: a larger one is not noise around a curve."""


@cache
def normal_quantile(beyond: float) -> float:
    """Return the standard deviations that a share `beyond` of a normal variable exceeds, to three decimals: 2.326 for 0.01."""
    return round(NormalDist().inv_cdf(1 - beyond), 3)


def tail_ratio(sigma: float, typical: float, beyond: float) -> float:
    """Return the ratio to the `typical` time that a share `beyond` of times exceeds, at least 1; `sigma` is their deviation."""
    return min(max(1 + normal_quantile(beyond) * sigma / typical, 1.0), MAX_TAIL_RATIO)


class CapacityModel(NamedTuple):
    """Fitted lines, the most trusted first, or a polyline where none fits, and the noise of batch times around them."""

    lines: tuple[ServiceCurve, ...]
    sums: CurveSumsTuple
    tail_ratio: float
    """q: the ratio t / (a + c*b) that as large a share of batches exceeds as the objective allows of requests, at least 1."""
    largest: float
    r_squared: float | None = None
    steps: float | None = None
    """Steps of an answer in generation; None for one-shot batches, which complete all their rows."""
    max_rows: float = inf
    """Maximum rows of a batch that fit in the cache, whatever the cap."""
    p99_ratio: float = 1.0
    """The 99th percentile of t / (a + c*b), at least 1, for the status."""
    shape: Polyline | None = None
    """The curve where a line would be wrong."""

    @property
    def identified(self) -> bool:
        """Whether a line was fitted; otherwise only the mean batch is known."""
        return bool(self.lines) or self.shape is not None

    def seconds(self, rows: float) -> float | None:
        """Return t(rows) from the polyline, or the first line that is certain enough, else from the mean batch scaled up."""
        if self.shape is not None:
            return measured(self.shape.seconds(rows))
        for line in self.lines:
            value = line.seconds(rows)
            if value is not None and value > 0:
                return value
        return batch_seconds(self.sums, rows)

    def capacity(self, rows: float) -> float | None:
        """Return mu(rows) = rows / t(rows), in rows a second; in generation, in answers a second."""
        rows_in_batch = min(rows, self.max_rows)
        seconds = self.seconds(rows_in_batch)
        return None if not seconds else measured(self.completed(rows_in_batch) / seconds)

    def completed(self, rows: float) -> float:
        """Return how many of `rows` a batch completes: all, or in generation those at their last step."""
        return rows if self.steps is None else rows / max(self.steps, 1.0)

    def intercept(self, rows: int) -> float:
        """Return I = a / t(rows), 0 to 1."""
        single, whole = self.seconds(1), self.seconds(rows)
        if rows <= 1 or not single or not whole or single >= whole:
            return 1.0
        return min(max((single - (whole - single) / (rows - 1)) / whole, 0.0), 1.0)

    def largest_within(self, seconds: float, top: int) -> int:
        """Return the largest batch, up to `top`, that takes at most `seconds`, in generation with the tail of its steps; 0 if there is none."""
        low, high = 0, top
        tail = 1.0 if self.steps is None else self.tail_ratio
        while low < high:
            middle = (low + high + 1) // 2
            time = self.seconds(middle)
            if time is not None and time * tail <= seconds:
                low = middle
            else:
                high = middle - 1
        return low

    def most_productive(self, top: int) -> int:
        """Return the batch of greatest capacity, of 1 to `top` rows; the largest of equal ones.

        With a line it is `top`. Between two knots of a polyline the capacity rises or falls throughout.
        """
        if self.shape is None:
            return top
        knots = {bound for rows in self.shape.rows for bound in (floor(rows), ceil(rows))}
        sizes = [rows for rows in knots if 1 <= rows < top]
        return max([*sizes, top], key=lambda rows: (self.capacity(rows) or 0.0, rows))


def model(curves: Sequence[PodCurve], beyond: float = LATE_SHARE) -> CapacityModel | None:
    """Return the model of these pods together; None without batches. `beyond` is the share of batches above the tail.

    The lines are fitted to the data alone, to data and prior, and to the prior alone, where each determines the slope. If the
    classes of sizes are off the line, the curve is the polyline through them.
    """
    data, prior = (
        add_sums(curve.data for curve in curves),
        add_sums(curve.prior for curve in curves),
    )
    both = add_sums((data, prior))
    if both.batches <= 0 or both.cost_units <= 0:
        return None
    fits = [fit_line(sums) for sums in (data, both, prior)]
    lines = tuple(line for line in fits if line is not None)
    shape = None
    if not lines or _misses(lines[0], both):
        shape = polyline(means(prior.by_size), means(data.by_size))
    sigma, typical = _noise(data, fits[0]) if data.batches else _noise(both, fits[1])
    return CapacityModel(
        lines=lines,
        sums=both,
        tail_ratio=tail_ratio(sigma, typical, beyond),
        largest=max(curve.largest for curve in curves),
        r_squared=r_squared(both),
        p99_ratio=tail_ratio(sigma, typical, LATE_SHARE),
        shape=shape,
    )


def _misses(line: ServiceCurve, sums: CurveSumsTuple) -> bool:
    """Return whether the mean of any class of sizes is further from the line than noise explains."""
    return any(
        abs(seconds - line.a - line.c * rows)
        > max(MAX_MISFIT, MISFIT_OF_ONE / sqrt(batches)) * seconds
        for rows, seconds, batches in means(sums.by_size)
    )


def curve_in_use(model: CapacityModel, rows: int) -> CurveInUse:
    """Return the line used for t(rows), for the status: of a polyline the chord from one row; without a line, the mean batch."""
    usable = (line for line in model.lines if line.seconds(rows) is not None)
    line = next(usable, None)
    mean = model.sums.cost_units / model.sums.batches
    if model.shape is not None:
        whole, single = model.shape.seconds(rows), model.shape.seconds(1)
        c = (whole - single) / max(rows - 1, 1)
        a = max(whole - c * rows, 0.0)
        return CurveInUse(a, c, model.r_squared, mean, model.largest, model.shape)
    a, c = (0.0, model.sums.seconds / model.sums.cost_units) if line is None else (line.a, line.c)
    return CurveInUse(a, c, model.r_squared if line else None, mean, model.largest)


def _noise(sums: CurveSumsTuple, line: ServiceCurve | None) -> tuple[float, float]:
    """Return the standard deviation of batch times around their line, and the mean batch time; (0, 1) if unknown.

    The distances of the classes of sizes from the line are the shape of the curve, and no noise.
    """
    typical = sums.seconds / sums.batches
    sizes = means(sums.by_size)
    if line is None and sizes:
        line = ServiceCurve(typical, 0.0, 0.0, 0.0)
    sigma = spread(sums, line)
    if line is None or sigma is None or typical <= 0:
        return 0.0, 1.0
    missed = sum(n * (seconds - line.a - line.c * rows) ** 2 for rows, seconds, n in sizes)
    return sqrt(max(sigma**2 - missed / sums.batches, 0.0)), typical


BUSY = 0.95
FAR = 0.10
NEAR = 0.08
"""Shares of the predicted rate: a deviation beyond FAR is reported until it is below NEAR."""


def off_curve(before: float | None, service: MeasuredService, curve: CapacityModel) -> float | None:
    """Return the relative deviation of the rows served from the prediction; None within the tolerance.

    `before` is the last result; it is kept while the pods are not busy enough to judge.
    """
    sums, duty = service.sums, service.duty
    if sums is None or duty is None or duty <= BUSY or service.pod_seconds <= 0:
        return before
    seconds = curve.seconds(sums.cost_units / sums.batches)
    if not seconds:
        return before
    off = sums.batches / service.pod_seconds * seconds - 1
    return off if abs(off) > (FAR if before is None else NEAR) else None
