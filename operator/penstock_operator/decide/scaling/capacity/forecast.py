"""Demand at the time when a replica asked for now would serve. Pure.

A damped trend (Gardner and McKenzie 1985, in continuous time), plus the quantile of its own past misses at just
this distance. The quantile's level is learned: up where a miss was felt, down a little while none is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

LEVEL_SECONDS = 10.0
TREND_SECONDS = 60.0
DAMPING_SECONDS = 120.0
"""A trend is believed to go on for about so long."""
PRIOR_MISSES = (-0.15, -0.1, -0.05, 0.0, 0.0, 0.05, 0.05, 0.1, 0.15, 0.25)
"""Relative misses of a forecaster just met: they count until its own outnumber them."""
LARGEST_MISS = 0.5
"""Relative. A step is answered when it comes; it is no reason to keep room for the next one."""
LARGEST_TREND = 0.5
"""A trend adds or takes at most this share of the level."""
KEPT_MISSES = 240
KEPT_PENDING = 400
FIRST_LEVEL, LEAST_LEVEL, LARGEST_LEVEL = 0.9, 0.6, 0.995
UP_STEP, DOWN_STEP = 0.01, 0.0002
MISS_SECONDS = 60.0
"""A forecast due longer ago than this, for lack of samples, is judged no more."""


@dataclass(frozen=True, slots=True)
class Forecaster:
    """What is remembered of the demand and of the forecasts made."""

    time: float | None = None
    level: float = 0.0
    """Rows a second."""
    trend: float = 0.0
    """Rows a second, a second."""
    pending: tuple[tuple[float, float, float], ...] = ()
    """(due, forecast, its upper value), oldest first."""
    misses: tuple[float, ...] = ()
    """(actual - forecast) / forecast."""
    quantile_level: float = FIRST_LEVEL


@dataclass(frozen=True, slots=True)
class Sample:
    """A new sample of the demand, and whether a forecast may be blamed for it."""

    rate: float
    """Rows a second."""
    felt: bool
    """Whether the Ready pods are so busy that a miss hurts."""
    judged: bool
    """Not while something else (a bound, a bridge) decides."""


def advance(before: Forecaster, sample: Sample, horizon: float, now: float) -> Forecaster:
    """Return the forecaster after a new sample of the demand."""
    after = _smoothed(_judged(before, sample, now), sample.rate, now)
    made = (now + horizon, middle(after, horizon), upper(after, horizon))
    return replace(after, pending=(*after.pending, made)[-KEPT_PENDING:])


def middle(forecaster: Forecaster, horizon: float) -> float:
    """Return the demand expected after `horizon` seconds."""
    reach = DAMPING_SECONDS * (1 - exp(-horizon / DAMPING_SECONDS))
    most = LARGEST_TREND * forecaster.level
    return max(forecaster.level + min(max(forecaster.trend * reach, -most), most), 0.0)


def upper(forecaster: Forecaster, horizon: float) -> float:
    """Return the demand that is exceeded as seldom as the learned level says."""
    return middle(forecaster, horizon) * (1 + max(headroom(forecaster), 0.0))


def headroom(forecaster: Forecaster) -> float:
    """Return the quantile of past misses at the learned level."""
    missing = max(len(PRIOR_MISSES) - len(forecaster.misses) // 6, 0)
    known = sorted([*forecaster.misses, *_spread_out(PRIOR_MISSES, missing)])
    place = forecaster.quantile_level * (len(known) - 1)
    low = int(place)
    high = min(low + 1, len(known) - 1)
    return known[low] + (place - low) * (known[high] - known[low])


def _spread_out(values: Sequence[float], number: int) -> list[float]:
    if number <= 0:
        return []
    step = len(values) / number
    return [values[int((i + 0.5) * step)] for i in range(number)]


def _judged(before: Forecaster, sample: Sample, now: float) -> Forecaster:
    due = [one for one in before.pending if one[0] <= now]
    if not due:
        return before
    when, forecast, most = due[-1]
    pending = tuple(one for one in before.pending if one[0] > now)
    if now - when > MISS_SECONDS:
        return replace(before, pending=pending)
    miss = (sample.rate - forecast) / max(forecast, 1e-9) if forecast > 0 else 0.0
    misses = (*before.misses, min(max(miss, -LARGEST_MISS), LARGEST_MISS))[-KEPT_MISSES:]
    level = before.quantile_level
    if sample.judged:
        level += UP_STEP if sample.rate > most and sample.felt else -DOWN_STEP
    return replace(
        before,
        pending=pending,
        misses=misses,
        quantile_level=min(max(level, LEAST_LEVEL), LARGEST_LEVEL),
    )


def _smoothed(before: Forecaster, rate: float, now: float) -> Forecaster:
    if before.time is None or now <= before.time:
        return replace(before, time=now, level=rate if before.time is None else before.level)
    passed = now - before.time
    share = 1 - exp(-passed / LEVEL_SECONDS)
    expected = middle(before, passed)
    level = expected + share * (rate - expected)
    slope = (level - before.level) / passed
    learning = 1 - exp(-passed / TREND_SECONDS)
    fading = exp(-passed / DAMPING_SECONDS)
    trend = fading * before.trend + learning * (slope - fading * before.trend)
    return replace(before, time=now, level=level, trend=trend)
