"""The rate that batch work needs, as the batch service reports it and the operator plans it. Pure."""

from collections.abc import Iterable


def required_rate(batches: Iterable[tuple[float, int]]) -> float:
    """Return the lowest constant rate at which every batch ends in time, the nearest deadline first, in lines a second.

    A batch is (seconds that remain, more than zero; lines without an answer).
    """
    rate, lines = 0.0, 0
    for seconds, left in sorted(batches):
        lines += left
        rate = max(rate, lines / seconds)
    return rate
