"""Demand at the time when a replica asked for now would serve. Pure.

A damped trend (Gardner and McKenzie 1985, in continuous time), plus the quantile of its own past misses at just
this distance. The quantile's level is learned: up where a miss was felt, down a little while none is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt

LEVEL_SECONDS = 45.0
TREND_SECONDS = 180.0
SURE_SIGMAS = 2.5
"""The level never lags further behind what comes than chance explains."""
SCRAPES_IN_RATE = 3
NOISE_SHARE = 0.05
"""Of each new difference."""
ODD = 6.0
DAMPING_SECONDS = 40.0
"""A trend is believed to go on for about so long."""
PRIOR_MISSES = (-0.15, -0.1, -0.05, 0.0, 0.0, 0.05, 0.05, 0.1, 0.15, 0.25)
"""Misses as shares of the level, of a forecaster just met: they count until its own outnumber them."""
LARGEST_TREND = 0.5
"""A trend adds or takes at most this share of the level."""
POINTS = (*((0.05 + 0.1 * i, 0.1) for i in range(9)), (0.92, 0.04), (0.96, 0.03), (0.985, 0.03))
"""(quantile, share) of the distribution of demands: finer where it matters."""
KEPT_MISSES = 720
"""An hour of them: a rise that comes once an hour is worth remembering."""
KEPT_PENDING = 400
FIRST_LEVEL, LEAST_LEVEL, LARGEST_LEVEL = 0.9, 0.6, 0.995
UP_STEP, DOWN_STEP = 0.01, 0.0002
MISS_SECONDS = 60.0
"""A forecast due longer ago than this, for lack of samples, is judged no more."""


@dataclass(frozen=True, slots=True)
class Forecaster:
    """What is remembered of the demand and of the forecasts made."""

    time: float | None = None
    begun: float | None = None
    """When the first sample came."""
    level: float = 0.0
    """Rows a second."""
    trend: float = 0.0
    """Rows a second, a second."""
    newest: float | None = None
    """Rows a second between the last two scrapes."""
    last: float | None = None
    """The one before."""
    noise: float | None = None
    """The variance of such rates around a slow course."""
    pending: tuple[tuple[float, float, float], ...] = ()
    """(due, forecast, its upper value), oldest first."""
    misses: tuple[float, ...] = ()
    """Actual less forecast, in rows a second."""
    quantile_level: float = FIRST_LEVEL


@dataclass(frozen=True, slots=True)
class Sample:
    """A new sample of the demand, and whether a forecast may be blamed for it."""

    rate: float
    """Rows a second over the last 15 s."""
    newest: float
    """Rows a second between the last two scrapes."""
    felt: bool
    """Whether the Ready pods are so busy that a miss hurts."""
    judged: bool
    """Not while something else (a bound, a bridge) decides."""


def advance(before: Forecaster, sample: Sample, horizon: float, now: float) -> Forecaster:
    """Return the forecaster after a new sample of the demand."""
    after = _judged(_smoothed(_listened(before, sample), sample.rate, now), sample, now)
    made = (now + horizon, middle(after, horizon), upper(after, horizon))
    return replace(after, pending=(*after.pending, made)[-KEPT_PENDING:])


def middle(forecaster: Forecaster, horizon: float) -> float:
    """Return the demand expected after `horizon` seconds."""
    reach = DAMPING_SECONDS * (1 - exp(-horizon / DAMPING_SECONDS))
    most = LARGEST_TREND * forecaster.level
    return max(forecaster.level + min(max(forecaster.trend * reach, -most), most), 0.0)


def upper(forecaster: Forecaster, horizon: float) -> float:
    """Return the demand that is exceeded as seldom as the learned level says."""
    return middle(forecaster, horizon) + max(headroom(forecaster), 0.0)


def likely(forecaster: Forecaster, horizon: float) -> list[tuple[float, float]]:
    """Return (share, demand after `horizon` seconds), by the misses of the past; the shares add up to 1."""
    expected, known = middle(forecaster, horizon), _known_misses(forecaster)
    last = len(known) - 1
    return [(share, max(expected + known[round(at * last)], 0.0)) for at, share in POINTS]


def headroom(forecaster: Forecaster) -> float:
    """Return the quantile of past misses at the learned level, in rows a second."""
    known = _known_misses(forecaster)
    place = forecaster.quantile_level * (len(known) - 1)
    low = int(place)
    high = min(low + 1, len(known) - 1)
    return known[low] + (place - low) * (known[high] - known[low])


def _known_misses(forecaster: Forecaster) -> list[float]:
    missing = max(len(PRIOR_MISSES) - len(forecaster.misses) // 6, 0)
    prior = [forecaster.level * share for share in _spread_out(PRIOR_MISSES, missing)]
    return sorted([*forecaster.misses, *prior])


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
    misses = (*before.misses, before.level - forecast)[-KEPT_MISSES:]
    level = before.quantile_level
    if sample.judged:
        level += UP_STEP if before.level > most and sample.felt else -DOWN_STEP
    return replace(
        before,
        pending=pending,
        misses=misses,
        quantile_level=min(max(level, LEAST_LEVEL), LARGEST_LEVEL),
    )


def _listened(before: Forecaster, sample: Sample) -> Forecaster:
    """Learn the noise from second differences, in which a ramp cancels; one that stands out by far is a step."""
    if before.newest is None or before.last is None:
        return replace(before, last=before.newest, newest=sample.newest)
    square = (sample.newest - 2 * before.newest + before.last) ** 2 / 6
    if before.noise is not None:
        square = min(square, ODD * before.noise + sample.newest)
        square = before.noise + NOISE_SHARE * (square - before.noise)
    return replace(before, last=before.newest, newest=sample.newest, noise=square)


def _smoothed(before: Forecaster, rate: float, now: float) -> Forecaster:
    if before.time is None or now <= before.time:
        level, begun = (rate, now) if before.time is None else (before.level, before.begun)
        return replace(before, time=now, begun=begun, level=level)
    passed, age = now - before.time, now - (before.begun or now)
    share = max(1 - exp(-passed / LEVEL_SECONDS), passed / (age + passed))
    expected = middle(before, passed)
    level = expected + share * (rate - expected)
    if before.noise is not None:
        level = max(level, rate - SURE_SIGMAS * sqrt(before.noise / SCRAPES_IN_RATE))
    slope = (level - before.level) / passed
    learning = 1 - exp(-passed / TREND_SECONDS) if age > LEVEL_SECONDS else 0.0
    fading = exp(-passed / DAMPING_SECONDS)
    trend = fading * before.trend + learning * (slope - fading * before.trend)
    return replace(before, time=now, level=level, trend=trend)
