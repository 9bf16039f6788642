"""Demand at the time when a replica asked for now would serve. Pure.

A damped trend (Gardner and McKenzie 1985, in continuous time), plus the distribution of what forecasts like it missed by
at just this distance. Two things are learned beside: how much of a departure from the hour's mean is left when the forecast is
due (`stays`: traffic that does not persist is not chased), and whether demand climbs now by more than chance explains: a
ramp beyond doubt is believed to go on, a doubtful one is not. Where no objective prices misses, a quantile of them is
taken, whose level is learned: up where a miss was felt, down a little while none is.
"""

from dataclasses import dataclass, field, replace
from math import exp, sqrt

from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast_errors import (
    MAX_ERRORS,
    ForecastError,
    ForecastErrors,
    at_points,
    likely_errors,
    quantile,
)

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
MEAN_SECONDS = 3600.0
"""Of the mean that demand may return to."""
DOUBT = 720.0
"""Samples' weight of the prior that a departure stays whole: an hour of them must speak against it to halve it."""
RAMP_SCRAPES = 7
"""A ramp is judged over 30 s."""
RAMP_DOUBT = 30.0
"""A slope's square must be so many times its variance to be believed at all; then in part, in the end whole."""
RAMP_SECONDS = 60.0
"""A ramp is believed to go on for so long."""
MAX_RAMP = 1.5
"""A ramp adds at most this multiple of the level."""
MAX_TREND = 0.5
"""A trend adds or takes at most this share of the level."""
MAX_PENDING = 400
INITIAL_LEVEL, MIN_LEVEL, MAX_LEVEL = 0.9, 0.6, 0.995
UP_STEP, DOWN_STEP = 0.01, 0.0002
MISS_SECONDS = 60.0
"""A forecast due longer ago than this, for lack of samples, is judged no more."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast that is not due yet."""

    due: float
    expected: float
    """Rows a second, as `most` and the others."""
    most: float
    """Its upper value."""
    departure: float
    """Of the level from the mean, when it was made."""
    climb: float
    """What trend or ramp were to add."""


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
    newer: tuple[tuple[float, float], ...] = ()
    """(time, rate between two scrapes), the last of them."""
    mean: float = 0.0
    """Rows a second, over an hour."""
    departed: float = 0.0
    """The sum of squared departures from the mean, of forecasts judged."""
    stayed: float = 0.0
    """The sum of departures times what was left of them when the forecasts were due."""
    judgements: float = 0.0
    """How many of them, old ones fading."""
    pending: tuple[Forecast, ...] = ()
    """Oldest first."""
    errors: ForecastErrors = field(default_factory=ForecastErrors)
    """Of forecasts that were due."""
    quantile_level: float = INITIAL_LEVEL


@dataclass(frozen=True, slots=True)
class DemandSample:
    """A new sample of the demand, and whether a forecast may be blamed for it."""

    rate: float
    """Rows a second over the last 15 s."""
    newest: float
    """Rows a second between the last two scrapes."""
    felt: bool
    """Whether the Ready pods are so busy that a miss hurts."""
    judged: bool
    """Not while something else (a bound, a bridge) decides."""


def advance(before: Forecaster, sample: DemandSample, horizon: float, now: float) -> Forecaster:
    """Return the forecaster after a new sample of the demand; what is made from the first few is not judged."""
    after = _judged(_smoothed(_listened(before, sample, now), sample.rate, now), sample, now)
    if now - (after.begun or now) < LEVEL_SECONDS:
        return after
    rise = climb(after, horizon)
    expected = _settled(after, rise)
    most = expected + max(headroom(after, expected), 0.0)
    made = Forecast(now + horizon, expected, most, after.level - after.mean, rise)
    return replace(after, pending=(*after.pending, made)[-MAX_PENDING:])


def expected_demand(forecaster: Forecaster, horizon: float) -> float:
    """Return the demand expected after `horizon` seconds."""
    return _settled(forecaster, climb(forecaster, horizon))


def _settled(forecaster: Forecaster, rise: float) -> float:
    """Return the demand after what is left of a departure from the mean, and what trend or ramp add."""
    departure = forecaster.level - forecaster.mean
    return max(forecaster.mean + persistence(forecaster) * departure + rise, 0.0)


def persistence(forecaster: Forecaster) -> float:
    """Return the share of a departure from the mean that is left when a forecast is due: 0 to 1, at first 1."""
    if forecaster.judgements <= 0 or forecaster.departed <= 0:
        return 1.0
    prior = DOUBT * forecaster.departed / forecaster.judgements
    return min(max((forecaster.stayed + prior) / (forecaster.departed + prior), 0.0), 1.0)


def climb(forecaster: Forecaster, horizon: float) -> float:
    """Return what trend and ramp add in `horizon` seconds, in rows a second."""
    slope, sure = ramp(forecaster)
    rise = min(slope * min(horizon, RAMP_SECONDS), MAX_RAMP * forecaster.level)
    return (1 - sure) * _drift(forecaster, horizon) + sure * rise


def ramp(forecaster: Forecaster) -> tuple[float, float]:
    """Return how fast demand climbs, in rows a second each second, and how far that is beyond chance, 0 to 1.

    Least squares over the last scrapes; the doubt is shrunk away as by James and Stein (1961), 1 - RAMP_DOUBT / z^2.
    """
    known = forecaster.newer
    if len(known) < RAMP_SCRAPES or forecaster.noise is None:
        return 0.0, 0.0
    middle_time = sum(time for time, _ in known) / len(known)
    square = sum((time - middle_time) ** 2 for time, _ in known)
    slope = sum((time - middle_time) * rate for time, rate in known) / square if square else 0.0
    if slope <= 0:
        return 0.0, 0.0
    return slope, max(1 - RAMP_DOUBT * forecaster.noise / (square * slope**2), 0.0)


def _drift(forecaster: Forecaster, horizon: float) -> float:
    reach = DAMPING_SECONDS * (1 - exp(-horizon / DAMPING_SECONDS))
    most = MAX_TREND * forecaster.level
    return min(max(forecaster.trend * reach, -most), most)


def upper_demand(forecaster: Forecaster, horizon: float) -> float:
    """Return the demand that is exceeded as seldom as the learned level says."""
    expected = expected_demand(forecaster, horizon)
    return expected + max(headroom(forecaster, expected), 0.0)


def likely_demands(forecaster: Forecaster, expected: float) -> list[tuple[float, float]]:
    """Return (share, demand) around the `middle` one, by what came of such forecasts; the shares add up to 1."""
    known = likely_errors(forecaster.errors, expected, forecaster.level)
    return [(share, max(expected + by, 0.0)) for share, by in at_points(known)]


def headroom(forecaster: Forecaster, expected: float) -> float:
    """Return the quantile of such forecasts' misses at the learned level, in rows a second."""
    known = likely_errors(forecaster.errors, expected, forecaster.level)
    return quantile(known, forecaster.quantile_level)


def _judged(before: Forecaster, sample: DemandSample, now: float) -> Forecaster:
    due = [one for one in before.pending if one.due <= now]
    if not due:
        return before
    last = due[-1]
    pending = tuple(one for one in before.pending if one.due > now)
    if now - last.due > MISS_SECONDS:
        return replace(before, pending=pending)
    level = before.quantile_level
    if sample.judged:
        level += UP_STEP if before.level > last.most and sample.felt else -DOWN_STEP
    return replace(
        _compared(before, last),
        pending=pending,
        errors=before.errors.add(ForecastError(last.expected, before.level - last.expected)),
        quantile_level=min(max(level, MIN_LEVEL), MAX_LEVEL),
    )


def _compared(before: Forecaster, last: Forecast) -> Forecaster:
    """Learn what was left of a departure from the mean."""
    left = before.level - last.climb - before.mean
    fading = 1 - 1 / MAX_ERRORS
    return replace(
        before,
        departed=fading * before.departed + last.departure**2,
        stayed=fading * before.stayed + last.departure * left,
        judgements=fading * before.judgements + 1,
    )


def _listened(before: Forecaster, sample: DemandSample, now: float) -> Forecaster:
    """Learn the noise from second differences, in which a ramp cancels; one that stands out by far is a step."""
    newer = (*before.newer, (now, sample.newest))[-RAMP_SCRAPES:]
    noise = before.noise
    if before.newest is not None and before.last is not None:
        square = (sample.newest - 2 * before.newest + before.last) ** 2 / 6
        if noise is not None:
            square = min(square, ODD * noise + sample.newest)
            square = noise + NOISE_SHARE * (square - noise)
        noise = square
    return replace(before, newer=newer, last=before.newest, newest=sample.newest, noise=noise)


def _smoothed(before: Forecaster, rate: float, now: float) -> Forecaster:
    if before.time is None or now <= before.time:
        level, begun = (rate, now) if before.time is None else (before.level, before.begun)
        mean = rate if before.time is None else before.mean
        return replace(before, time=now, begun=begun, level=level, mean=mean)
    passed, age = now - before.time, now - (before.begun or now)
    share = max(1 - exp(-passed / LEVEL_SECONDS), passed / (age + passed))
    expected = max(before.level + _drift(before, passed), 0.0)
    level = expected + share * (rate - expected)
    if before.noise is not None:
        level = max(level, rate - SURE_SIGMAS * sqrt(before.noise / SCRAPES_IN_RATE))
    slope = (level - before.level) / passed
    learning = 1 - exp(-passed / TREND_SECONDS) if age > LEVEL_SECONDS else 0.0
    fading = exp(-passed / DAMPING_SECONDS)
    trend = fading * before.trend + learning * (slope - fading * before.trend)
    lasting = max(1 - exp(-passed / MEAN_SECONDS), passed / (age + passed))
    mean = before.mean + lasting * (level - before.mean)
    return replace(before, time=now, level=level, trend=trend, mean=mean)
