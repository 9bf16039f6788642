"""By how much forecasts like this one missed. Pure.

Of traffic that swings, a forecast of much seldom proves too low, and one of little often does. So what may come is told by what
came of the past forecasts most like the present one (analogs: Hamill and Whitaker 2006; nearest neighbours: Stone 1977), not
of all: replicas are not insured at the top of a burst against a burst upon it, where they are dearest.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_ERRORS = 720
"""An hour of them: a rise that comes once an hour is worth remembering."""
NEIGHBORS = 240
"""So many of them are most like the present forecast: 20 minutes of them, for neighbours in time say much the same."""
PRIOR_ERRORS = (-0.15, -0.1, -0.05, 0.0, 0.0, 0.05, 0.05, 0.1, 0.15, 0.25)
"""Misses as shares of the level, of a forecaster just met: they count until its own outnumber them."""
PRIOR_WEIGHT = 6
"""So many own ones for each of those."""
POINTS = (*((0.05 + 0.1 * i, 0.1) for i in range(9)), (0.92, 0.04), (0.96, 0.03), (0.985, 0.03))
"""(quantile, share) of the distribution of demands: finer where it matters."""


class ForecastError(NamedTuple):
    """What came of one forecast."""

    expected: float
    """Rows a second, as it was forecast."""
    by: float
    """Actual less forecast, in rows a second."""


class ForecastErrors(NamedTuple):
    """What came of the last forecasts; kept in order too, for there are hundreds of them at every tick."""

    latest: tuple[ForecastError, ...] = ()
    """Oldest first."""
    alike: tuple[ForecastError, ...] = ()
    """The same by what was expected, ascending."""

    @classmethod
    def of(cls, values: Iterable[ForecastError]) -> "ForecastErrors":
        """Return those values, oldest first."""
        latest = tuple(values)
        return cls(latest, tuple(sorted(latest)))

    def add(self, miss: ForecastError) -> "ForecastErrors":
        """Return them with one more; beyond `KEPT_MISSES` the oldest is dropped."""
        latest, alike = (*self.latest, miss), list(self.alike)
        insort(alike, miss)
        if len(latest) > MAX_ERRORS:
            del alike[bisect_left(alike, latest[0])]
            latest = latest[1:]
        return ForecastErrors(latest, tuple(alike))

    def near(self, expected: float) -> list[float]:
        """Return by how much the forecasts nearest to `expected` missed, ascending."""
        last = max(len(self.alike) - NEIGHBORS, 0)
        first = bisect_left(range(last), 0.0, key=lambda at: self._lean(expected, at))
        return sorted(one.by for one in self.alike[first : first + NEIGHBORS])

    def _lean(self, expected: float, first: int) -> float:
        """Return by how much the one after ALIKE of them is further off than their first; ascending."""
        return self.alike[first].expected + self.alike[first + NEIGHBORS].expected - 2 * expected


def likely_errors(misses: ForecastErrors, expected: float, level: float) -> Sequence[float]:
    """Return by how much `expected` may miss, ascending, never empty: by its own past, and at first by what others saw of `level`."""
    own = misses.near(expected)
    missing = max(len(PRIOR_ERRORS) - len(misses.latest) // PRIOR_WEIGHT, 0)
    if not missing:
        return own
    return sorted([*own, *(level * share for share in _spread_out(PRIOR_ERRORS, missing))])


def at_points(ascending: Sequence[float]) -> list[tuple[float, float]]:
    """Return (share, value) at POINTS."""
    last = len(ascending) - 1
    return [(share, ascending[round(at * last)]) for at, share in POINTS]


def quantile(ascending: Sequence[float], at: float) -> float:
    """Return the value at this share of the way, 0 to 1, between neighbours."""
    place = at * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (place - low) * (ascending[high] - ascending[low])


def _spread_out(values: Sequence[float], number: int) -> list[float]:
    step = len(values) / number
    return [values[int((i + 0.5) * step)] for i in range(number)]
