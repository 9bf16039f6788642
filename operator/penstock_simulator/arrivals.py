"""Arrivals of a run: a trace scaled to a mean fluid count, with seeded jitter. Pure."""

import numpy as np

from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.pods.routing import Times

MEAN_REPLICAS = 8.0
"""The mean demand of every scaled trace, in replicas that only run full batches."""
JITTER_SECONDS = 1.0
QUANTILES = 20_000
"""Points that stand for a trace of counts per bin."""


def scaled(times: Times, requests: float, seed: int, jitter: float = JITTER_SECONDS) -> Times:
    """Return about `requests` arrivals with the shape of `times`, from 0, ascending.

    Each arrival becomes several copies (the fraction by chance), moved by chance with a standard deviation of
    `jitter` seconds; a trace with too many arrivals is thinned alike.
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
    """Return how many requests in `duration` seconds keep `replicas` busy on the mean, all batches full."""
    return replicas * duration * service.capacity(cap)


def from_counts(starts: Times, counts: Times, bin_seconds: float) -> Times:
    """Return QUANTILES arrivals whose rate runs straight from the middle of one bin to the next's."""
    middles = starts + bin_seconds / 2
    grid = np.linspace(starts[0], starts[-1] + bin_seconds, 50 * len(starts) + 1)
    rate = np.interp(grid, middles, counts)
    steps = np.diff(grid) * (rate[1:] + rate[:-1]) / 2
    cumulative = np.concatenate(([0.0], np.cumsum(steps)))
    wanted = (np.arange(QUANTILES) + 0.5) / QUANTILES * cumulative[-1]
    return np.asarray(np.interp(wanted, cumulative, grid), dtype=np.float64)


def steps(rates: list[tuple[float, float]], seed: int) -> Times:
    """Return Poisson arrivals under (requests per second, seconds) one after another."""
    random, begin, parts = np.random.default_rng([seed, 5]), 0.0, [np.empty(0)]
    for rate, seconds in rates:
        count = int(random.poisson(rate * seconds))
        parts.append(np.sort(random.uniform(begin, begin + seconds, size=count)))
        begin += seconds
    return np.concatenate(parts)
