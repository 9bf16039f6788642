"""Philox4x32-10 random numbers over arrays (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

A draw is a function of (seed, choice, position) only: there is no state that a preemption could lose or a batch-mate
could advance.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 10
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(
    counter: NDArray[np.uint64], key: NDArray[np.uint64], rounds: int = _ROUNDS
) -> NDArray[np.uint64]:
    """Return [n, 4] words below 2^32 for counters [n, 4] and keys [n, 2] of such words."""
    c0, c1, c2, c3 = (counter[:, column] for column in range(4))
    k0, k1 = key[:, 0], key[:, 1]
    for _ in range(rounds):
        low, high = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (
            (high >> _HALF) ^ c1 ^ k0,
            high & _LOW,
            (low >> _HALF) ^ c3 ^ k1,
            low & _LOW,
        )
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return np.stack([c0, c1, c2, c3], axis=1)


def uniforms(
    seeds: Sequence[int], choices: Sequence[int], positions: Sequence[int]
) -> NDArray[np.float64]:
    """Return one number in [0, 1) per row, of 53 bits; seeds are taken modulo 2^64."""
    key = np.array([seed & 0xFFFFFFFFFFFFFFFF for seed in seeds], np.uint64)
    counter = np.zeros((len(key), 4), np.uint64)
    counter[:, 0], counter[:, 1] = positions, choices
    words = philox(counter, np.stack([key & _LOW, key >> _HALF], axis=1))
    bits = (words[:, 0] << np.uint64(21)) ^ (words[:, 1] >> np.uint64(11))
    return bits.astype(np.float64) * 2.0**-53
