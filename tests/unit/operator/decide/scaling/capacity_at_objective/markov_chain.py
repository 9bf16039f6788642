"""The embedded Markov chain behind the latency table: a pod whose batches take what is waiting, up to a cap.

`p99_table.py` holds its results; a test compares them. Everything is in units of the cap and of t(cap), so that one table
serves all pools: a batch of x caps takes I + (1 - I) x, and `dispersion` is the variance of arrivals over their mean, over the
cap. The chain's state is the queue length at the end of a batch (Bailey 1954, "On queueing processes with bulk service", with
batch times that depend on the batch). Mean-wait formulas for unlimited batches are too optimistic near saturation.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, inf, lgamma, log

UNITS = 8
"""Units per cap."""
CAPS = 24
"""Queue length, in caps, at which the chain is truncated; a 99th percentile beyond it counts as infinite."""
LONGEST = 20.0
"""Longest latency, in t(cap); a longer one is infinite."""
PERCENTILE = 0.99
_STATES = UNITS * CAPS
_GRID = 50
"""Resolution of latencies: 1/50 of t(cap)."""
_PLACES = 8
"""Requests followed of those that arrive during one batch."""


def p99(intercept: float, dispersion: float, rho: float) -> float:
    """Return the 99th percentile of a request's latency, in t(cap); infinite from rho = 1 on.

    `intercept` is I = a / t(cap), `dispersion` is (variance / mean of arrivals) / cap, `rho` is demand over
    the capacity at the cap.
    """
    if rho >= 1:
        return inf
    arrivals = {
        size: _arrivals(rho * UNITS * _time(size, intercept), dispersion * UNITS)
        for size in range(1, UNITS + 1)
    }
    ends = _stationary(arrivals)
    counts = [0.0] * int(LONGEST * _GRID)
    beyond = 0.0
    for waiting, share in enumerate(ends):
        size = min(max(waiting, 1), UNITS)
        left, time = max(waiting - size, 0), _time(size, intercept)
        for came, chance in enumerate(arrivals[size]):
            looked = min(came, _PLACES)
            for part in range(looked):
                place = (part + 0.5) / looked
                own = _own(left + int(place * came), left + came, intercept)
                slot = int(((1 - place) * time + own) * _GRID)
                weight = share * chance * came / looked
                if slot < len(counts):
                    counts[slot] += weight
                else:
                    beyond += weight
        if waiting == 0:
            counts[int(time * _GRID)] += share
    return _quantile(counts, beyond)


def _time(units: int, intercept: float) -> float:
    return intercept + (1 - intercept) * units / UNITS


def _own(ahead: int, total: int, intercept: float) -> float:
    """Return the time from the next batch's start to the end of the batch that takes this request."""
    full = ahead // UNITS
    return full + _time(min(total - full * UNITS, UNITS), intercept)


def _quantile(counts: Sequence[float], beyond: float) -> float:
    wanted, seen = PERCENTILE * (sum(counts) + beyond), 0.0
    for slot, count in enumerate(counts):
        seen += count
        if seen >= wanted:
            return (slot + 1) / _GRID
    return inf


def _stationary(arrivals: dict[int, tuple[float, ...]]) -> list[float]:
    """Return the share of batch ends at each queue length, by elimination (Grassmann, Taksar and Heyman 1985)."""
    rows = [[0.0] * _STATES for _ in range(_STATES)]
    for waiting, row in enumerate(rows):
        size = min(max(waiting, 1), UNITS)
        left = max(waiting - size, 0)
        for came, chance in enumerate(arrivals[size]):
            row[min(left + came, _STATES - 1)] += chance
    for last in range(_STATES - 1, 0, -1):
        row, out = rows[last], sum(rows[last][:last])
        for above in range(last):
            rate = rows[above][last] / out
            rows[above][last] = rate
            if rate:
                target = rows[above]
                for column in range(last):
                    target[column] += rate * row[column]
    shares = [1.0]
    for state in range(1, _STATES):
        shares.append(sum(shares[above] * rows[above][state] for above in range(state)))
    whole = sum(shares)
    return [share / whole for share in shares]


@lru_cache(maxsize=64)
def _arrivals(mean: float, scale: float) -> tuple[float, ...]:
    """Return the chances of 0, 1, 2 ... units: a gamma variable of this mean and of variance scale * mean.

    Each value is divided between the two integers around it, which keeps the mean.
    """
    shape = mean / scale
    areas = [0.0]
    while len(areas) < 2 * _STATES:
        x = float(len(areas))
        below = _gamma(shape, x / scale)
        areas.append(x * below - mean * _gamma(shape + 1, x / scale))
        if below > 1 - 1e-9:
            break
    areas.append(areas[-1] + 1)
    rest = [areas[k + 1] - 2 * areas[k] + areas[k - 1] for k in range(1, len(areas) - 1)]
    chances = [areas[1], *(max(chance, 0.0) for chance in rest)]
    whole = sum(chances)
    return tuple(chance / whole for chance in chances)


def _gamma(shape: float, x: float) -> float:
    """Return the regularised lower incomplete gamma function (Numerical Recipes, 6.2)."""
    if x <= 0:
        return 0.0
    front = exp(shape * log(x) - x - lgamma(shape + 1))
    if x < shape + 1:
        term, total, n = 1.0, 1.0, shape
        while term > 1e-12 * total:
            n += 1
            term *= x / n
            total += term
        return min(front * total, 1.0)
    b = x + 1 - shape
    c, d = 1e300, 1 / b
    h = d
    for i in range(1, 200):
        step = -i * (i - shape)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        h *= d * c
        if abs(d * c - 1) < 1e-12:
            break
    return max(1 - front * shape * h, 0.0)
