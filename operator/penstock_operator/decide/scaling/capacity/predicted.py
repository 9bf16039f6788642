"""How busy a replica may be at the objective: the tabulated chain, read both ways. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf, log

from penstock_operator.decide.scaling.capacity.p99_table import (
    DISPERSIONS,
    INTERCEPTS,
    RHOS,
    TABLE,
)


def p99(intercept: float, dispersion: float, rho: float) -> float:
    """Return the 99th percentile of latency in t(cap); infinite from rho = 1 on.

    `intercept` = a / t(cap), `dispersion` = variance / mean of a pod's arrivals, over the cap.
    """
    if rho >= 1:
        return inf
    curve = _curve(intercept, dispersion)
    if rho <= RHOS[0]:
        return curve[0]
    if rho >= RHOS[-1]:
        return curve[-1] * (1 - RHOS[-1]) / (1 - rho)
    place, share = _place(RHOS, rho)
    return _between(curve[place], curve[place + 1], share)


def largest_rho(intercept: float, dispersion: float, limit: float) -> float:
    """Return the largest rho whose 99th percentile is at most `limit` t(cap); 0 where none is."""
    curve = _curve(intercept, dispersion)
    if curve[0] > limit:
        return 0.0
    for place in range(len(RHOS) - 1):
        low, high = curve[place], curve[place + 1]
        if high > limit:
            share = 0.0 if high == inf else (limit - low) / (high - low)
            return RHOS[place] + share * (RHOS[place + 1] - RHOS[place])
    return RHOS[-1]


def _curve(intercept: float, dispersion: float) -> list[float]:
    """Return the 99th percentiles at all of RHOS, between the tabulated curves."""
    i, across = _place(INTERCEPTS, intercept)
    j, along = _place([log(one) for one in DISPERSIONS], log(max(dispersion, DISPERSIONS[0])))
    near, far = TABLE[i], TABLE[i + 1]
    return [
        _between(
            _between(near[j][k], near[j + 1][k], along),
            _between(far[j][k], far[j + 1][k], along),
            across,
        )
        for k in range(len(RHOS))
    ]


def _place(grid: Sequence[float], value: float) -> tuple[int, float]:
    """Return the cell of a value, and how far into it; values outside count as at the edge."""
    inside = min(max(value, grid[0]), grid[-1])
    place = min(max(bisect_left(grid, inside) - 1, 0), len(grid) - 2)
    return place, (inside - grid[place]) / (grid[place + 1] - grid[place])


def _between(low: float, high: float, share: float) -> float:
    if share <= 0:
        return low
    if share >= 1:
        return high
    return inf if inf in {low, high} else low + share * (high - low)
