"""Arrivals of a run: a trace scaled to a mean fluid count, with seeded jitter. Pure."""

import numpy as np
from numpy.typing import NDArray

from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.step_time import Lengths, distinct

MEAN_REPLICAS = 8.0
"""Mean demand of every scaled trace, in replicas that only run full batches."""
JITTER_SECONDS = 1.0
NEIGHBORS = 100
"""Arrivals before and after one, from which its copies take their tokens."""
QUANTILES = 20_000
"""Arrivals that represent a trace of counts per bin."""


def scaled(times: Times, requests: float, seed: int, jitter: float = JITTER_SECONDS) -> Times:
    """Return about `requests` arrivals with the shape of `times`, from 0, ascending.

    Each arrival is copied several times (a fractional count is rounded at random), with normal jitter of standard
    deviation `jitter` seconds; a trace with too many arrivals is thinned in the same way.
    """
    return _copied(times, requests, seed, jitter)[0]


def scaled_lengths(
    times: Times, lengths: Lengths, requests: float, seed: int
) -> tuple[Times, Lengths]:
    """Return `scaled` arrivals, each at a time of its own, and their tokens.

    A copy is another user's request: it has the tokens of an arrival at most `NEIGHBORS` before or after its own, at random.
    """
    moved, index = _copied(times, requests, seed, JITTER_SECONDS)
    random = np.random.default_rng([seed, 7])
    near = index + random.integers(-NEIGHBORS, NEIGHBORS + 1, size=len(index))
    return distinct(moved), lengths[np.clip(near, 0, len(times) - 1)]


def random_lengths(count: int, prompt: float, answer: float, seed: int) -> Lengths:
    """Return geometric tokens of prompts and answers with these means, which are at least 1."""
    random = np.random.default_rng([seed, 8])
    return random.geometric((1 / prompt, 1 / answer), size=(count, 2))


def _copied(
    times: Times, requests: float, seed: int, jitter: float
) -> tuple[Times, NDArray[np.int64]]:
    """Return the scaled arrivals, ascending, and which of `times` each copies."""
    random = np.random.default_rng([seed, 0])
    copies = requests / max(len(times), 1)
    whole = int(copies)
    counts = whole + (random.random(len(times)) < copies - whole)
    index = np.repeat(np.arange(len(times)), counts)
    moved = (times - times.min())[index] + jitter * random.standard_normal(len(index))
    order = np.argsort(moved, kind="stable")
    return np.maximum(moved[order], 0.0), index[order]


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
