"""The demand forecast: the demand at the time when a replica requested now is Ready. Pure.

A damped trend (Gardner and McKenzie 1985, in continuous time), plus the distribution of the errors of similar forecasts at the
same horizon. Two quantities are learned: the share of a departure from the hourly mean that remains when the forecast is due
(`persistence`: traffic that does not persist is not followed), and whether demand rises by more than chance explains: a
significant ramp is extrapolated, a doubtful one is not. Without an objective the forecast is an upper quantile of the errors.
"""

from collections.abc import Sequence
from math import exp, sqrt
from typing import NamedTuple

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
"""Maximum lag of the level behind the rate, in standard deviations."""
SCRAPES_IN_RATE = 3
NOISE_SHARE = 0.05
"""Weight of each new difference in the noise estimate."""
ODD = 6.0
DAMPING_SECONDS = 40.0
"""Time constant of the trend's damping."""
MEAN_SECONDS = 3600.0
"""Time constant of the mean that demand may return to."""
DOUBT = 720.0
"""Weight, in samples, of the prior that a departure persists: an hour of contrary samples halves it."""
RAMP_SCRAPES = 7
"""Scrapes over which a ramp is judged: 30 s."""
RAMP_DOUBT = 30.0
"""Ratio of a slope's square to its variance from which on the slope counts in part, and for larger ratios nearly in full."""
RAMP_SECONDS = 60.0
"""Time for which a ramp is extrapolated."""
MAX_RAMP = 1.5
"""Maximum rise by a ramp, as a multiple of the level."""
MAX_TREND = 0.5
"""Maximum change by a trend, as a share of the level."""
MAX_PENDING = 400
UPPER = 0.9
"""Quantile of demand that is planned for without an objective."""
MISS_SECONDS = 60.0
"""Age after which a due forecast is discarded, if samples were missing."""


class Forecast(NamedTuple):
    """A forecast that is not due yet."""

    due: float
    expected: float
    """Rows a second, as all other fields."""
    departure: float
    """Departure of the level from the mean at the time of the forecast."""
    climb: float
    """Predicted rise by trend or ramp."""


class Forecaster(NamedTuple):
    """State of the forecaster: demand, pending forecasts and past errors."""

    time: float | None = None
    begun: float | None = None
    """Time of the first sample."""
    level: float = 0.0
    """Rows a second."""
    trend: float = 0.0
    """Rows a second, a second."""
    noise: float | None = None
    """Variance of such rates around a slow course."""
    newer: tuple[tuple[float, float], ...] = ()
    """The last (time, rate between two scrapes) pairs."""
    mean: float = 0.0
    """Mean rate over an hour, in rows a second."""
    departed: float = 0.0
    """Sum of squared departures from the mean, over judged forecasts."""
    stayed: float = 0.0
    """Sum of departures times their remainders when the forecasts were due."""
    judgements: float = 0.0
    """Number of judged forecasts, with decay."""
    pending: tuple[Forecast, ...] = ()
    """Oldest first."""
    errors: ForecastErrors = ForecastErrors()
    """Errors of forecasts that were due."""


class DemandSample(NamedTuple):
    """A new sample of the demand."""

    rate: float
    """Rate over the last 15 s, in rows a second."""
    newest: float
    """Rows a second between the last two scrapes."""
    overlapping: bool = False
    """Whether successive values of `newest` overlap."""


class Outlook(NamedTuple):
    """The demand after a horizon, in rows a second."""

    expected: float
    """The mean, the share of the departure from it that persists, and `rise`."""
    rise: float
    """By trend and ramp."""
    errors: Sequence[float]
    """Errors of forecasts similar to `expected`, ascending."""
    upper: float
    """Quantile `UPPER` of demand."""


def advance(
    before: Forecaster, sample: DemandSample, horizon: float, now: float
) -> tuple[Forecaster, Outlook]:
    """Return forecaster and outlook after a new sample; forecasts from the first few samples are not judged."""
    after = _judged(_smoothed(_with_noise(before, sample, now), sample.rate, now), now)
    ahead = outlook(after, horizon)
    if now - (after.begun or now) < LEVEL_SECONDS:
        return after, ahead
    departure = after.level - after.mean
    forecast = Forecast(now + horizon, ahead.expected, departure, ahead.rise)
    return after._replace(pending=(*after.pending, forecast)[-MAX_PENDING:]), ahead


def outlook(forecaster: Forecaster, horizon: float) -> Outlook:
    """Return the outlook after `horizon` seconds."""
    departure, rise = forecaster.level - forecaster.mean, climb(forecaster, horizon)
    expected = max(forecaster.mean + persistence(forecaster) * departure + rise, 0.0)
    errors = likely_errors(forecaster.errors, expected, forecaster.level)
    upper = expected + max(quantile(errors, UPPER), 0.0)
    return Outlook(expected, rise, errors, upper)


def likely_demands(ahead: Outlook) -> list[tuple[float, float]]:
    """Return the distribution of demand as (share, demand), from past errors; the shares add up to 1."""
    return [(share, max(ahead.expected + by, 0.0)) for share, by in at_points(ahead.errors)]


def persistence(forecaster: Forecaster) -> float:
    """Return the share of a departure from the mean that remains when a forecast is due: 0 to 1, initially 1."""
    if forecaster.judgements <= 0 or forecaster.departed <= 0:
        return 1.0
    prior = DOUBT * forecaster.departed / forecaster.judgements
    return min(max((forecaster.stayed + prior) / (forecaster.departed + prior), 0.0), 1.0)


def climb(forecaster: Forecaster, horizon: float) -> float:
    """Return the rise by trend and ramp in `horizon` seconds, in rows a second."""
    slope, sure = ramp(forecaster)
    rise = min(slope * min(horizon, RAMP_SECONDS), MAX_RAMP * forecaster.level)
    return (1 - sure) * _drift(forecaster, horizon) + sure * rise


def _drift(forecaster: Forecaster, horizon: float) -> float:
    reach = DAMPING_SECONDS * (1 - exp(-horizon / DAMPING_SECONDS))
    most = MAX_TREND * forecaster.level
    return min(max(forecaster.trend * reach, -most), most)


def ramp(forecaster: Forecaster) -> tuple[float, float]:
    """Return the slope of demand, in rows a second each second, and its significance, 0 to 1.

    Least squares over the last scrapes, with shrinkage after James and Stein (1961), 1 - RAMP_DOUBT / z^2.
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


def pool_dispersion(forecaster: Forecaster) -> float:
    """Return the variance of all arrivals between two scrapes over their mean, in rows, at least 1."""
    seconds = scrape_seconds(forecaster)
    if forecaster.noise is None or seconds is None or forecaster.level <= 0:
        return 1.0
    return max(forecaster.noise * seconds / forecaster.level, 1.0)


def scrape_seconds(forecaster: Forecaster) -> float | None:
    """Return the mean time between the last scrapes; None before the second one, and after a clock has stepped back."""
    times = [time for time, _ in forecaster.newer]
    passed = times[-1] - times[0] if times else 0.0
    return passed / (len(times) - 1) if passed > 0 else None


def _judged(before: Forecaster, now: float) -> Forecaster:
    due = [forecast for forecast in before.pending if forecast.due <= now]
    if not due:
        return before
    last = due[-1]
    pending = tuple(forecast for forecast in before.pending if forecast.due > now)
    if now - last.due > MISS_SECONDS:
        return before._replace(pending=pending)
    error = ForecastError(last.expected, before.level - last.expected)
    return _compared(before, last)._replace(pending=pending, errors=before.errors.add(error))


def _compared(before: Forecaster, last: Forecast) -> Forecaster:
    """Return the forecaster with the remainder of a departure from the mean."""
    left = before.level - last.climb - before.mean
    fading = 1 - 1 / MAX_ERRORS
    return before._replace(
        departed=fading * before.departed + last.departure**2,
        stayed=fading * before.stayed + last.departure * left,
        judgements=fading * before.judgements + 1,
    )


def _with_noise(before: Forecaster, sample: DemandSample, now: float) -> Forecaster:
    """Return the forecaster with the noise updated from second differences of rates that do not overlap.

    A ramp cancels in them; an outlier is a step.
    """
    newer = (*before.newer, (now, sample.newest))[-RAMP_SCRAPES:]
    noise, values = before.noise, newer[:: -2 if sample.overlapping else -1][:3]
    if len(values) == 3:
        (_, last), (_, middle), (_, first) = values
        square = (last - 2 * middle + first) ** 2 / 6
        if noise is not None:
            square = min(square, ODD * noise + sample.newest)
            square = noise + NOISE_SHARE * (square - noise)
        noise = square
    return before._replace(newer=newer, noise=noise)


def _smoothed(before: Forecaster, rate: float, now: float) -> Forecaster:
    if before.time is None or now <= before.time:
        level, begun = (rate, now) if before.time is None else (before.level, before.begun)
        mean = rate if before.time is None else before.mean
        return before._replace(time=now, begun=begun, level=level, mean=mean)
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
    return before._replace(time=now, level=level, trend=trend, mean=mean)
