"""The distribution of forecast errors, from past forecasts similar to the present one. Pure.

In fluctuating traffic a high forecast is rarely too low, and a low one often is. So the distribution is that of the past
forecasts most similar to the present one (analogs: Hamill and Whitaker 2006; nearest neighbors: Stone 1977) and not of all:
at the top of a burst, where replicas are dearest, the law does not insure against a second burst.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
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


EMPTY = array("d")


class ForecastErrors(NamedTuple):
    """Errors of the last forecasts, by time and by forecast demand, in arrays that are replaced and never changed.

    Every tick reads hundreds of them, of thousands of pools: as objects they would be spread over memory.
    """

    expected: "array[float]" = EMPTY
    """Forecast demands, oldest first."""
    by: "array[float]" = EMPTY
    """Errors of these forecasts."""
    alike: "array[float]" = EMPTY
    """The same forecast demands, ascending."""
    alike_by: "array[float]" = EMPTY
    """Errors of those."""

    @classmethod
    def of(cls, values: Iterable[ForecastError]) -> "ForecastErrors":
        """Return the errors of `values`, oldest first."""
        known = list(values)
        return cls(*_columns(known), *_columns(sorted(known)))

    @property
    def latest(self) -> list[ForecastError]:
        """Return the errors, oldest first."""
        return list(map(ForecastError, self.expected, self.by))

    def add(self, error: ForecastError) -> "ForecastErrors":
        """Return the errors with one more; beyond `MAX_ERRORS` the oldest is dropped."""
        kept = self if len(self.by) < MAX_ERRORS else self._without_oldest()
        (expected, by), at = _columns([error]), kept._place(error)
        return ForecastErrors(
            kept.expected + expected,
            kept.by + by,
            kept.alike[:at] + expected + kept.alike[at:],
            kept.alike_by[:at] + by + kept.alike_by[at:],
        )

    def _without_oldest(self) -> "ForecastErrors":
        at = self._place(ForecastError(self.expected[0], self.by[0]))
        return ForecastErrors(
            self.expected[1:],
            self.by[1:],
            self.alike[:at] + self.alike[at + 1 :],
            self.alike_by[:at] + self.alike_by[at + 1 :],
        )

    def _place(self, error: ForecastError) -> int:
        """Return the place of an error among those by forecast demand."""
        low = bisect_left(self.alike, error.expected)
        high = bisect_right(self.alike, error.expected, low)
        return bisect_left(self.alike_by, error.by, low, high)

    def near(self, expected: float) -> list[float]:
        """Return the errors of the forecasts nearest to `expected`, ascending."""
        last = max(len(self.alike) - NEIGHBORS, 0)
        first = bisect_left(range(last), 0.0, key=lambda at: self._lean(expected, at))
        return sorted(self.alike_by[first : first + NEIGHBORS])

    def _lean(self, expected: float, first: int) -> float:
        """Return how much farther the forecast after `NEIGHBORS` of them is than their first; ascending in `first`."""
        return self.alike[first] + self.alike[first + NEIGHBORS] - 2 * expected


def _columns(errors: Sequence[ForecastError]) -> tuple["array[float]", "array[float]"]:
    return array("d", [error.expected for error in errors]), array(
        "d", [error.by for error in errors]
    )


def likely_errors(errors: ForecastErrors, expected: float, level: float) -> Sequence[float]:
    """Return the likely errors of `expected`, ascending and never empty: from past forecasts, and at first from the prior at `level`."""
    own = errors.near(expected)
    missing = max(len(PRIOR_ERRORS) - len(errors.by) // PRIOR_WEIGHT, 0)
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
