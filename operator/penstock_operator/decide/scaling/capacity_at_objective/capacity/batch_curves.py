"""Service curves of the pods, updated at each tick. Pure.

The first sums of a pod, including its warm-up, are its prior; later batches are data that decays with a half-life of busy
time. So a constant cap does not hide the slope of the curve, and drift is followed.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from math import sqrt
from operator import add, lt
from typing import NamedTuple

from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.polyline import means, polyline
from penstock_operator.decide.scaling.signals.counters import SUMS, CurveSumsTuple, Point, sums_of
from penstock_operator.decide.scaling.signals.per_revision import RevisionKnowledge
from penstock_operator.decide.scaling.signals.service_curve import AnySums, ServiceCurve, fit
from penstock_operator.decide.scaling.signals.windows import Window

HALF_LIFE_SECONDS = 600.0
"""Half-life of data, in seconds of busy time."""
PRIOR_BATCHES = 64.0
"""Maximum weight of the prior, in batches."""
ODD_SIGMAS = 4.0
ODD_INTERVALS = 3
"""Consecutive outliers that count as a real change; fewer are dropped."""
MIN_NOISE = 0.02
"""Smallest assumed standard deviation, as a share of a batch's time."""
MIN_WARM_UP_BATCHES = 4.0
"""Batches that a fit needs if their sizes were chosen to determine the slope."""
MIN_BATCHES_TO_JUDGE = 32.0
"""Batches without which no interval counts as an outlier."""


class PodCurve(NamedTuple):
    """One pod's sums: first sample, later data, and outliers."""

    revision: str | None
    last: CurveSumsTuple
    """Raw counters at the last sample used."""
    time: float
    """Time of that sample."""
    prior: CurveSumsTuple
    data: CurveSumsTuple
    largest: float
    """Lower bound of the largest batch measured, in cost units."""
    odd: tuple[CurveSumsTuple, ...] = ()


BatchCurves = RevisionKnowledge[PodCurve]


def learn_batches(
    curves: BatchCurves, windows: Mapping[str, Window], pods: Sequence[LawPod]
) -> BatchCurves:
    """Return the curves with each pod's new samples."""
    return curves.updated(
        pods, lambda known, pod: _learn(known, windows.get(pod.uid, ()), pod), _merged
    )


def add_sums(sums: Iterable[CurveSumsTuple]) -> CurveSumsTuple:
    """Return the total of sums."""
    return _combine([(part, 1.0) for part in sums])


def fit_line(sums: CurveSumsTuple) -> ServiceCurve | None:
    """Return the least-squares line through batches that may include a warm-up."""
    return fit(sums, MIN_WARM_UP_BATCHES)


def spread(sums: AnySums, fitted: ServiceCurve | None) -> float | None:
    """Return the standard deviation of batch times around the fitted line, in seconds; None without a line."""
    if fitted is None:
        return None
    a, c, n = fitted.a, fitted.c, sums.batches
    noise = (
        sums.seconds_squared
        - 2 * (a * sums.seconds + c * sums.cost_unit_seconds)
        + a * a * n
        + 2 * a * c * sums.cost_units
        + c * c * sums.cost_units_squared
    )
    return sqrt(max(noise / n, 0.0))


def _learn(curve: PodCurve | None, window: Window, pod: LawPod) -> PodCurve | None:
    for point in window:
        if curve is not None and point.time <= curve.time:
            continue
        sums = raw_sums(point)
        if sums is None or sums.batches <= 0:
            continue
        if curve is None or _restarted(curve.last, sums):
            curve = _met(sums, point.time, pod)
        elif sums.batches > curve.last.batches:
            curve = _grown(curve, sums, point.time)
    return curve


def raw_sums(point: Point) -> CurveSumsTuple | None:
    """Return the raw sums of a sample; None if a sum is absent."""
    counters = [point.counters.get(name) for name in SUMS]
    known = [value for value in counters if value is not None]
    if len(known) < len(counters):
        return None
    return sums_of(known, point.by_size, point.epoch or 0)


def _restarted(before: CurveSumsTuple, after: CurveSumsTuple) -> bool:
    return before.epoch != after.epoch or any(map(lt, after[1:-1], before[1:-1]))


def _met(sums: CurveSumsTuple, time: float, pod: LawPod) -> PodCurve:
    share = min(1.0, PRIOR_BATCHES / sums.batches)
    prior = _combine([(sums, share)])
    return PodCurve(pod.revision, sums, time, prior, CurveSumsTuple(), proven_size(sums))


def _grown(curve: PodCurve, sums: CurveSumsTuple, time: float) -> PodCurve:
    fresh = _combine([(sums, 1.0), (curve.last, -1.0)])
    if not _is_odd(curve, fresh):
        return _with(curve, curve.prior, fresh, sums, time)
    odd = (*curve.odd, fresh)
    if len(odd) < ODD_INTERVALS:
        return curve._replace(last=sums, time=time, odd=odd)
    changed = curve._replace(data=CurveSumsTuple())
    return _with(changed, CurveSumsTuple(), add_sums(odd), sums, time)


def _with(
    curve: PodCurve, prior: CurveSumsTuple, fresh: CurveSumsTuple, last: CurveSumsTuple, time: float
) -> PodCurve:
    """Return the curve with new data, up to the sample of `last` and `time`."""
    kept = 0.5 ** (fresh.seconds / HALF_LIFE_SECONDS)
    return PodCurve(
        revision=curve.revision,
        last=last,
        time=time,
        prior=prior,
        data=_combine([(curve.data, kept), (fresh, 1.0)]),
        largest=max(curve.largest, proven_size(fresh)),
    )


def _is_odd(curve: PodCurve, fresh: CurveSumsTuple) -> bool:
    """Return whether an interval's time is too far from the curve's prediction for its batches."""
    if curve.data.batches < MIN_BATCHES_TO_JUDGE or fresh.batches <= 0:
        return False
    known = add_sums((curve.prior, curve.data))
    fitted = fit_line(known)
    sigma = spread(known, fitted)
    if fitted is None or sigma is None:
        return False
    predicted = fitted.seconds(fresh.cost_units / fresh.batches)
    if predicted is None or not _differs(fresh, predicted, sigma):
        return False
    shape = polyline(means(curve.prior.by_size), means(curve.data.by_size))
    sizes = () if shape is None else means(fresh.by_size)
    if shape is None or not sizes:
        return True
    batches = sum(size.batches for size in sizes)
    predicted = sum(size.batches * shape.seconds(size.rows) for size in sizes) / batches
    return _differs(fresh, predicted, sigma)


def _differs(fresh: CurveSumsTuple, predicted: float, sigma: float) -> bool:
    return too_far(fresh.seconds / fresh.batches, predicted, sigma, fresh.batches)


def too_far(mean: float, predicted: float, sigma: float, count: float) -> bool:
    """Return whether the mean time of `count` batches is further from the prediction than chance explains."""
    chance = max(sigma / sqrt(count), MIN_NOISE * predicted)
    return abs(mean - predicted) > ODD_SIGMAS * chance


def proven_size(sums: CurveSumsTuple) -> float:
    """Return a lower bound of the largest batch size: sum(b^2) / sum(b), at most sum(b)."""
    if sums.cost_units <= 0:
        return 0.0
    return min(sums.cost_units_squared / sums.cost_units, sums.cost_units)


def _merged(earlier: PodCurve, other: PodCurve) -> PodCurve:
    """Return the mean of both pods' sums."""
    return other._replace(
        prior=_combine([(earlier.prior, 0.5), (other.prior, 0.5)]),
        data=_combine([(earlier.data, 0.5), (other.data, 0.5)]),
        largest=max(earlier.largest, other.largest),
    )


def _combine(parts: Iterable[tuple[CurveSumsTuple, float]]) -> CurveSumsTuple:
    """Return the weighted sum, with elements of at least 0: the innermost loop of every tick of every pool."""
    total: Sequence[float] = ()
    for sums, weight in parts:
        flat: Sequence[float] = (*sums[1:-1], *sums.by_size)
        weighted = flat if weight == 1 else [weight * value for value in flat]
        if not total:
            total = weighted
        elif len(flat) == len(total):
            total = list(map(add, total, weighted))
        else:
            total = [old + new for old, new in zip_longest(total, weighted, fillvalue=0.0)]
    total = [value if value > 0 else 0.0 for value in total]
    width = len(SUMS)
    return sums_of(total[:width], tuple(total[width:])) if total else CurveSumsTuple()
