"""Rows of unequal length (texts), pure: which wait together, and how a batch is cut so that little is padding.

A model that packs its rows (no padding at all) needs none of this: all lengths share one group. For others
a request's group carries the bucket of its length. Groups compete by the key of their heads, which ages, so
a rare length waits no longer than its discipline lets any request wait.
"""

from collections.abc import Sequence

LEAST_BUCKET = 16
BUCKET_RATIO = 1.5
"""A bucket's longest row is at most this many times its shortest: at most a third of a batch is padding."""
MOST_PADDING = 0.1
"""Share of a run that may be padding before a batch is cut in two runs."""
LEAST_RUN_TOKENS = 512
"""A run with fewer tokens wastes more on its fixed cost than it saves in padding."""


def length_buckets(most: int) -> tuple[int, ...]:
    """Return ascending upper bounds of the buckets for lengths up to `most`, which is the last."""
    bounds, bound = [], min(LEAST_BUCKET, most)
    while bound < most:
        bounds.append(bound)
        bound = max(bound + 1, int(bound * BUCKET_RATIO))
    return (*bounds, most)


def bucket_of(length: int, buckets: Sequence[int]) -> int:
    """Return the bucket that holds `length`: the least bound not below it, or the length itself above all."""
    return next((bound for bound in buckets if length <= bound), length)


def runs(
    lengths: Sequence[int],
    most_padding: float = MOST_PADDING,
    least_tokens: int = LEAST_RUN_TOKENS,
) -> list[list[int]]:
    """Return row numbers in runs, longest rows first; a run is padded to its first row's length.

    A run ends where the next row would raise its padding above `most_padding`, unless it is still shorter
    than `least_tokens`.
    """
    by_length = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    batches: list[list[int]] = []
    tokens = 0
    for row in by_length:
        width = lengths[batches[-1][0]] if batches else 0
        padded = width * (len(batches[-1]) + 1) if batches else 0
        within = padded - tokens - lengths[row] <= most_padding * padded
        if batches and (within or padded - width < least_tokens):
            batches[-1].append(row)
            tokens += lengths[row]
        else:
            batches.append([row])
            tokens = lengths[row]
    return batches
