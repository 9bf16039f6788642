"""Prediction of latency and of the share of late requests, from the table of a Markov chain. Pure."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import exp, inf, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.latency.p99_table import (
    DISPERSIONS,
    INTERCEPTS,
    RHOS,
    TABLE,
)

LOG_DISPERSIONS = tuple(map(log, DISPERSIONS))
BEYOND_P99 = 0.01
MIN_RHO = 0.05
"""Lowest utilization at which lateness is judged: that of nearly idle pods."""
OVERLOADED = 1000
"""Utilization, in percent, above which shares are not cached."""
STEP = 0.03
NODES = tuple((0.4 * step, exp(-0.5 * (0.4 * step) ** 2)) for step in range(-8, 9))
"""Points of a normal variable with their weights."""
SKEWED = 1.0
"""Unevenness of exponential rates, above which the quadrature is over requests and not over pods."""
QUANTILES = tuple(NormalDist().inv_cdf((part + 0.5) / 50) for part in range(50))
"""Medians of 50 equal parts of a normal variable."""
MAX_PERCENT = 1_000_000
"""Every request is late from 100 percent on."""


def p99(intercept: float, dispersion: float, rho: float) -> float:
    """Return the 99th percentile of latency in t(cap); infinite from rho = 1 on.

    `intercept` = a / t(cap), `dispersion` = variance / mean of a pod's arrivals, over the cap.
    """
    return _at(_curve(intercept, dispersion), rho)


class TrafficShape(NamedTuple):
    """Shape of the traffic, which together with rho determines waiting times."""

    intercept: float
    """I = a / t(cap)."""
    dispersion: float
    """Variance / mean of a pod's arrivals, over the cap."""
    unevenness: float
    """Squared coefficient of variation of the pods' rates."""


def _at(node: Callable[[int], float], rho: float) -> float:
    """Return the 99th percentile between those at RHOS, which `node` returns by place."""
    if rho >= 1:
        return inf
    if rho <= RHOS[0]:
        return node(0)
    if rho >= RHOS[-1]:
        return node(len(RHOS) - 1) * (1 - RHOS[-1]) / (1 - rho)
    place, share = _place(RHOS, rho)
    return _between(node(place), node(place + 1), share)


class LateShares(dict[int, float]):
    """The share of requests that take longer than the limit, by utilization in percent, computed on access."""

    def __init__(self, alone: Sequence[float], unevenness: float) -> None:
        """`alone` is a single pod's share, from 0 to 100 percent."""
        super().__init__()
        self._alone, self._factors = alone, _factors(unevenness)

    def __missing__(self, at: int) -> float:
        """Return the share over all pods, each with its own part of the mean load, at this utilization in percent."""
        alone, rho = self._alone, at / 100
        share = sum(
            weight * alone[int(min(100 * rho * factor + 0.5, 100))]
            for factor, weight in self._factors
        )
        if at <= OVERLOADED:
            self[at] = share
        return share

    def at(self, rho: float) -> float:
        """Return the share at this utilization."""
        return self[percent(rho)]


def percent(rho: float) -> int:
    """Return a utilization in integer percent."""
    return int(min(100 * rho + 0.5, MAX_PERCENT))


def late_share(load: TrafficShape, limit: float) -> LateShares:
    """Return the share of requests that take longer than `limit` t(cap).

    Pods are unequally busy: a pod's rate is the mean times a gamma variable. A pod's latency is assumed to have an exponential
    tail, P(latency > L) = 0.01 ^ (L / p99). The share is monotonic in utilization. As unevenness grows without bound it tends to 1 at any utilization; in a pool that is not
    overloaded as a whole it is also monotonic in unevenness, up to the quadrature's error of a few percent below `SKEWED`.
    """
    return late_share_by_unevenness(load.intercept, load.dispersion, limit)(load.unevenness)


def late_share_by_unevenness(
    intercept: float, dispersion: float, limit: float
) -> Callable[[float], LateShares]:
    """Return `late_share` by unevenness, for the other parts of `TrafficShape`."""
    known = round(intercept, 2), _steps(dispersion), _steps(limit)
    return lambda unevenness: _late_shares(*known, _steps(unevenness))


@lru_cache(maxsize=16384)
def _late_shares(
    intercept: float, dispersion: float, limit: float, unevenness: float
) -> LateShares:
    return LateShares(_late_alone(intercept, dispersion, limit), unevenness)


@lru_cache(maxsize=1024)
def _late_alone(intercept: float, dispersion: float, limit: float) -> tuple[float, ...]:
    """Return the share of one pod's requests that are late, by its own utilization in percent; 1 from 100 on."""
    curve = tuple(map(_curve(intercept, dispersion), range(len(RHOS))))
    return tuple(
        BEYOND_P99 ** (limit / _at(curve.__getitem__, percent / 100)) for percent in range(101)
    )


@lru_cache(maxsize=1024)
def _factors(unevenness: float) -> tuple[tuple[float, float], ...]:
    """Return (a pod's rate over the mean, share of all requests), of a gamma variable of variance `unevenness`.

    Wilson and Hilferty 1931: the cube root of a gamma variable is approximately normal, for shapes of about 1 and more.
    """
    return _of_pods(unevenness) if unevenness <= SKEWED else _of_requests(unevenness)


def _of_pods(unevenness: float) -> tuple[tuple[float, float], ...]:
    """Return the factors of pods, whose rates have the shape 1 / unevenness, at `NODES`."""
    factors = [
        (max(1 - unevenness / 9 + place * sqrt(unevenness) / 3, 0.0) ** 3, weight)
        for place, weight in NODES
    ]
    whole = sum(weight * factor for factor, weight in factors)
    return tuple((factor, weight * factor / whole) for factor, weight in factors)


def _of_requests(unevenness: float) -> tuple[tuple[float, float], ...]:
    """Return the factors of requests at `QUANTILES` of the rate of the pod that serves each.

    Most pods of a skewed pool have almost no requests, so that points of the pods' distribution miss the few busy ones. A
    request reaches a pod in proportion to its rate, and the size-biased gamma distribution is again a gamma distribution, of
    shape 1 + 1 / unevenness and the same scale (Patil and Rao 1978, "Weighted distributions and size-biased sampling"). Its
    shape is at least 1, its mean is 1 + unevenness, and in the limit nearly every request reaches an overloaded pod.
    """
    spread = unevenness / (9 * (1 + unevenness))
    return tuple(
        ((1 + unevenness) * (1 - spread + place * sqrt(spread)) ** 3, 1 / len(QUANTILES))
        for place in QUANTILES
    )


def _steps(value: float) -> float:
    """Round to steps of about 3 %, so that small changes of traffic hit the caches."""
    return exp(round(log(value) / STEP) * STEP) if value > 0 else 0.0


def _curve(intercept: float, dispersion: float) -> Callable[[int], float]:
    """Return the 99th percentiles by place in RHOS, between the tabulated curves."""
    i, across = _place(INTERCEPTS, intercept)
    j, along = _place(LOG_DISPERSIONS, log(max(dispersion, DISPERSIONS[0])))
    near, far = TABLE[i], TABLE[i + 1]

    def node(k: int) -> float:
        low = _between(near[j][k], near[j + 1][k], along)
        return _between(low, _between(far[j][k], far[j + 1][k], along), across)

    return node


def _place(grid: Sequence[float], value: float) -> tuple[int, float]:
    """Return the cell of a value and the fraction within it; values outside are clamped to the edge."""
    inside = min(max(value, grid[0]), grid[-1])
    place = min(max(bisect_left(grid, inside) - 1, 0), len(grid) - 2)
    return place, (inside - grid[place]) / (grid[place + 1] - grid[place])


def _between(low: float, high: float, share: float) -> float:
    if share <= 0:
        return low
    if share >= 1:
        return high
    return inf if inf in {low, high} else low + share * (high - low)
