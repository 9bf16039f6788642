"""The distribution of forecast errors, from past forecasts similar to the present one. Pure.

In fluctuating traffic a high forecast is rarely too low, and a low one often is. So the distribution is that of the past
forecasts most similar to the present one (analogs: Hamill and Whitaker 2006; nearest neighbors: Stone 1977) and not of all:
at the top of a burst, where replicas are dearest, the law does not insure against a second burst.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

MAX_ERRORS = 720
"""Stored errors: an hour, since a rise may recur once an hour."""
NEIGHBORS = 240
"""Errors of the most similar forecasts that make the distribution: 20 minutes, since neighbors in time are correlated."""
PRIOR_ERRORS = (-0.15, -0.1, -0.05, 0.0, 0.0, 0.05, 0.05, 0.1, 0.15, 0.25)
"""Prior errors of a new forecaster, as shares of the level, until its own errors replace them."""
PRIOR_WEIGHT = 6
"""Own errors that replace one prior error."""
POINTS = (*((0.05 + 0.1 * i, 0.1) for i in range(9)), (0.92, 0.04), (0.96, 0.03), (0.985, 0.03))
"""(quantile, share) points of the distribution of demand, finer in the upper tail."""


class ForecastError(NamedTuple):
    """The error of one forecast."""

    expected: float
    """Forecast demand, in rows a second."""
    by: float
    """Actual minus forecast demand, in rows a second."""


BY = itemgetter(ForecastError._fields.index("by"))


class ForecastErrors(NamedTuple):
    """Errors of the last forecasts, by time and sorted, since every tick reads hundreds of them."""

    latest: tuple[ForecastError, ...] = ()
    """Oldest first."""
    alike: tuple[ForecastError, ...] = ()
    """The same errors by forecast demand, ascending."""

    @classmethod
    def of(cls, values: Iterable[ForecastError]) -> "ForecastErrors":
        """Return the errors of `values`, oldest first."""
        latest = tuple(values)
        return cls(latest, tuple(sorted(latest)))

    def add(self, error: ForecastError) -> "ForecastErrors":
        """Return the errors with one more; beyond `MAX_ERRORS` the oldest is dropped."""
        latest, alike = (*self.latest, error), list(self.alike)
        insort(alike, error)
        if len(latest) > MAX_ERRORS:
            del alike[bisect_left(alike, latest[0])]
            latest = latest[1:]
        return ForecastErrors(latest, tuple(alike))

    def near(self, expected: float) -> list[float]:
        """Return the errors of the forecasts nearest to `expected`, ascending."""
        last = max(len(self.alike) - NEIGHBORS, 0)
        first = bisect_left(range(last), 0.0, key=lambda at: self._lean(expected, at))
        return sorted(map(BY, self.alike[first : first + NEIGHBORS]))

    def _lean(self, expected: float, first: int) -> float:
        """Return how much farther the forecast after `NEIGHBORS` of them is than their first; ascending in `first`."""
        return self.alike[first].expected + self.alike[first + NEIGHBORS].expected - 2 * expected


def likely_errors(errors: ForecastErrors, expected: float, level: float) -> Sequence[float]:
    """Return the likely errors of `expected`, ascending and never empty: from past forecasts, and at first from the prior at `level`."""
    own = errors.near(expected)
    missing = max(len(PRIOR_ERRORS) - len(errors.latest) // PRIOR_WEIGHT, 0)
    if not missing:
        return own
    return sorted([*own, *(level * share for share in _spread_out(PRIOR_ERRORS, missing))])


def at_points(ascending: Sequence[float]) -> list[tuple[float, float]]:
    """Return (share, value) at `POINTS`."""
    last = len(ascending) - 1
    return [(share, ascending[round(at * last)]) for at, share in POINTS]


def quantile(ascending: Sequence[float], at: float) -> float:
    """Return the quantile `at`, 0 to 1, interpolated between neighbors."""
    place = at * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (place - low) * (ascending[high] - ascending[low])


def _spread_out(values: Sequence[float], number: int) -> list[float]:
    step = len(values) / number
    return [values[int((i + 0.5) * step)] for i in range(number)]
