"""What pods of one revision can do: the time of a batch of any size, and capacity from it. Pure.

Whether busy pods serve what their curve says (docs/design/control-law.md#data). Pure.

A device that is busy all the time runs batch after batch, so rows come out at b / t(b). Where they do not, batches are not all
that keeps it busy (somebody else computes on it, or the pod pauses between batches), or the curve is wrong: capacity is
then not known well, and the pool says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    PodCurve,
    add,
    line,
    spread,
)
from penstock_operator.decide.scaling.law import CurveInUse
from penstock_operator.decide.scaling.signals.aggregates import MeasuredService
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.scaling.signals.service_curve import (
    ServiceCurve,
    batch_seconds,
    r_squared,
)
from penstock_operator.observed import measured

BEYOND = 1.25
"""Nothing is planned with a batch larger than the largest seen by more than this."""
NORMAL_P99 = 2.326
"""Standard deviations to the 99th percentile of a normal variable."""
MAX_P99_RATIO = 3.0
"""Noise beyond this is not noise around a curve."""


@dataclass(frozen=True, slots=True)
class CapacityModel:
    """Lines through the data, in order of trust, and how far batches stray from them."""

    lines: tuple[ServiceCurve, ...]
    sums: CurveSumsTuple
    p99_ratio: float
    """q: the 99th percentile of t / (a + c*b), at least 1."""
    largest: float
    r_squared: float | None = None
    steps: float | None = None
    """Of generation: steps that an answer takes part in. None: a batch ends all that is in it."""
    max_rows: float = inf
    """More are never in a batch, whatever the cap: the cache holds no more."""

    @property
    def identified(self) -> bool:
        """Whether any line was found: else only the mean batch is known."""
        return bool(self.lines)

    def seconds(self, rows: float) -> float | None:
        """Return t(rows) by the first line that can say it, else the mean batch scaled up."""
        for one in self.lines:
            value = one.seconds(rows)
            if value is not None and value > 0:
                return value
        return batch_seconds(self.sums, rows)

    def capacity(self, rows: float) -> float | None:
        """Return mu(rows) = rows / t(rows), in rows a second; of generation in answers a second."""
        held = min(rows, self.max_rows)
        seconds = self.seconds(held)
        return None if not seconds else measured(self.ended(held) / seconds)

    def ended(self, rows: float) -> float:
        """Return how many of `rows` are done when a batch ends: all, or of generation those at their last step."""
        return rows if self.steps is None else rows / max(self.steps, 1.0)

    def intercept(self, rows: int) -> float:
        """Return I = a / t(rows), 0 to 1."""
        one, whole = self.seconds(1), self.seconds(rows)
        if rows <= 1 or not one or not whole or one >= whole:
            return 1.0
        return min(max((one - (whole - one) / (rows - 1)) / whole, 0.0), 1.0)

    def largest_within(self, seconds: float, top: int) -> int:
        """Return the most rows, up to `top`, whose batch takes at most `seconds` at its 99th percentile; 0: none."""
        low, high = 0, top
        while low < high:
            middle = (low + high + 1) // 2
            time = self.seconds(middle)
            if time is not None and time * self.p99_ratio <= seconds:
                low = middle
            else:
                high = middle - 1
        return low


def model(curves: Sequence[PodCurve]) -> CapacityModel | None:
    """Return the model of these pods together; None where no batch was seen.

    The data alone where they tell the slope; else with the prior; else the prior alone.
    """
    data, prior = add(one.data for one in curves), add(one.prior for one in curves)
    both = add((data, prior))
    if both.batches <= 0 or both.cost_units <= 0:
        return None
    lines = tuple(found for sums in (data, both, prior) if (found := line(sums)) is not None)
    return CapacityModel(
        lines=lines,
        sums=both,
        p99_ratio=_p99_ratio(data if data.batches else both),
        largest=max(one.largest for one in curves),
        r_squared=r_squared(both),
    )


def curve_in_use(found: CapacityModel, rows: int) -> CurveInUse:
    """Return the line that says t(rows), for people; the mean batch as one line where there is none."""
    usable = (one for one in found.lines if one.seconds(rows) is not None)
    one = next(usable, None)
    mean = found.sums.cost_units / found.sums.batches
    a, c = (0.0, found.sums.seconds / found.sums.cost_units) if one is None else (one.a, one.c)
    return CurveInUse(a, c, found.r_squared if one else None, mean, found.largest)


def _p99_ratio(sums: CurveSumsTuple) -> float:
    sigma, typical = spread(sums, line(sums)), sums.seconds / sums.batches
    if sigma is None or typical <= 0:
        return 1.0
    return min(max(1 + NORMAL_P99 * sigma / typical, 1.0), MAX_P99_RATIO)


BUSY = 0.95
FAR = 0.10
NEAR = 0.08
"""Of the rate foretold: further off than FAR is told, until it is nearer than NEAR."""


def off_curve(before: float | None, found: MeasuredService, curve: CapacityModel) -> float | None:
    """Return by what share the rows served are off those foretold, where that is too far; None where they are not.

    `before` is what was returned last; it stands while the pods are too little busy to judge by.
    """
    sums, duty = found.sums, found.duty
    if sums is None or duty is None or duty <= BUSY or found.pod_seconds <= 0:
        return before
    seconds = curve.seconds(sums.cost_units / sums.batches)
    if not seconds:
        return before
    off = sums.batches / found.pod_seconds * seconds - 1
    return off if abs(off) > (FAR if before is None else NEAR) else None
