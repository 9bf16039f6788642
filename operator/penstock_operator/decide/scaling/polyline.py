"""The service curve as a rising polyline through the mean batch of each class of sizes, for devices that no line describes. Pure.

A device may be flat up to a knee, or take tiles of rows. The means of the warm-up and of later batches are the knots; means
that fall are merged, weighted by their batches.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock_api.pod_contract import SUMS_PER_SIZE

SAME = 1e-3
"""Relative difference of sizes below which they are one."""


class Knot(NamedTuple):
    """Mean of batches."""

    rows: float
    seconds: float
    batches: float


class Polyline(NamedTuple):
    """Rising times of rising sizes, at least two: `seconds` are interpolated."""

    rows: tuple[float, ...]
    times: tuple[float, ...]

    def seconds(self, rows: float) -> float:
        """Return t(rows): below the first knot its time, above the last the slope from a knot of at most half the size."""
        at = bisect_left(self.rows, rows)
        if at == 0:
            return self.times[0]
        if at < len(self.rows):
            low, high = self.rows[at - 1], self.rows[at]
            share = (rows - low) / (high - low)
            return self.times[at - 1] + share * (self.times[at] - self.times[at - 1])
        most, time = self.rows[-1], self.times[-1]
        half = max(bisect_right(self.rows, most / 2 * (1 + SAME)) - 1, 0)
        return time + (rows - most) * (time - self.times[half]) / (most - self.rows[half])


def means(by_size: Sequence[float]) -> list[Knot]:
    """Return the mean batch of each class of `CurveSums.by_size` that has any."""
    each = (by_size[term::SUMS_PER_SIZE] for term in range(SUMS_PER_SIZE))
    return [
        Knot(b / n, t / n, n) for n, b, t in zip(*each, strict=False) if n > 0 and b > 0 and t > 0
    ]


def polyline(warm_up: Sequence[Knot], later: Sequence[Knot]) -> Polyline | None:
    """Return the curve through both; None with fewer than two sizes.

    Real requests may take longer than the samples of the warm-up, so its times are scaled by the ratio of later ones to them.
    """
    known = _through(warm_up)
    scale = 1.0
    if known is not None and later:
        expected = sum(knot.batches * known.seconds(knot.rows) for knot in later)
        scale = sum(knot.batches * knot.seconds for knot in later) / expected
    scaled = [knot._replace(seconds=scale * knot.seconds) for knot in warm_up]
    return _through([*scaled, *later])


def _through(knots: Sequence[Knot]) -> Polyline | None:
    """Return the isotonic regression of the times on the sizes (pool adjacent violators)."""
    blocks: list[tuple[float, Knot]] = []
    for knot in _by_rows(knots):
        first, block = knot.rows, knot
        while blocks and blocks[-1][1].seconds >= block.seconds:
            first, before = blocks.pop()
            block = _mean(before, block, knot.rows)
        blocks.append((first, block))
    ends = [(end, block.seconds) for first, block in blocks for end in {first: 0, block.rows: 0}]
    return Polyline(*zip(*ends, strict=True)) if len(ends) > 1 else None


def _by_rows(knots: Sequence[Knot]) -> Iterator[Knot]:
    """Yield the knots by size; those of one size as their mean."""
    last: Knot | None = None
    for knot in sorted(knots):
        if last is not None and knot.rows <= last.rows * (1 + SAME):
            last = _mean(last, knot, last.rows)
            continue
        if last is not None:
            yield last
        last = knot
    if last is not None:
        yield last


def _mean(knot: Knot, other: Knot, rows: float) -> Knot:
    total = knot.batches + other.batches
    return Knot(rows, (knot.batches * knot.seconds + other.batches * other.seconds) / total, total)
