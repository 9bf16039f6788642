"""Arrivals of a run: a trace scaled to a mean fluid count, with seeded jitter. Pure."""

import numpy as np

from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.pods.routing import Times

MEAN_REPLICAS = 8.0
"""Mean demand of every scaled trace, in replicas that only run full batches."""
JITTER_SECONDS = 1.0
QUANTILES = 20_000
"""Arrivals that represent a trace of counts per bin."""


def scaled(times: Times, requests: float, seed: int, jitter: float = JITTER_SECONDS) -> Times:
    """Return about `requests` arrivals with the shape of `times`, from 0, ascending.

    Each arrival is copied several times (a fractional count is rounded at random), with normal jitter of standard
    deviation `jitter` seconds; a trace with too many arrivals is thinned in the same way.
    """
    random = np.random.default_rng([seed, 0])
    copies = requests / max(len(times), 1)
    whole = int(copies)
    counts = whole + (random.random(len(times)) < copies - whole)
    repeated = np.repeat(times - times.min(), counts)
    moved = repeated + jitter * random.standard_normal(len(repeated))
    return np.asarray(np.sort(np.maximum(moved, 0.0)), dtype=np.float64)


def requests_for(
    duration: float, service: ServiceModel, cap: int, replicas: float = MEAN_REPLICAS
) -> float:
    """Return how many requests in `duration` seconds keep `replicas` busy on average, with full batches."""
    return replicas * duration * service.capacity(cap)


def from_counts(starts: Times, counts: Times, bin_seconds: float) -> Times:
    """Return QUANTILES arrivals whose rate is interpolated linearly between the centers of the bins."""
    middles = starts + bin_seconds / 2
    grid = np.linspace(starts[0], starts[-1] + bin_seconds, 50 * len(starts) + 1)
    rate = np.interp(grid, middles, counts)
    steps = np.diff(grid) * (rate[1:] + rate[:-1]) / 2
    cumulative = np.concatenate(([0.0], np.cumsum(steps)))
    wanted = (np.arange(QUANTILES) + 0.5) / QUANTILES * cumulative[-1]
    return np.asarray(np.interp(wanted, cumulative, grid), dtype=np.float64)


def steps(rates: list[tuple[float, float]], seed: int) -> Times:
    """Return Poisson arrivals for consecutive steps of (requests per second, seconds)."""
    random, begin, parts = np.random.default_rng([seed, 5]), 0.0, [np.empty(0)]
    for rate, seconds in rates:
        count = int(random.poisson(rate * seconds))
        parts.append(np.sort(random.uniform(begin, begin + seconds, size=count)))
        begin += seconds
    return np.concatenate(parts)
