"""Rows of unequal length (texts), pure: which wait together, and how a batch is cut so that little is padding.

A model that packs its rows (no padding at all) needs none of this: all lengths share one group. For others
a request's group carries the bucket of its length. Groups compete by the key of their heads, which ages, so
a rare length waits no longer than its discipline lets any request wait.
"""

from collections.abc import Sequence

MIN_BUCKET = 16
BUCKET_RATIO = 1.5
"""A bucket's longest row is at most this many times its shortest: at most a third of a batch is padding."""
MAX_PADDING = 0.1
"""Share of a run that may be padding before a batch is cut in two runs."""
MIN_RUN_TOKENS = 512
"""A run with fewer tokens wastes more on its fixed cost than it saves in padding."""


def length_buckets(longest: int) -> tuple[int, ...]:
    """Return ascending upper bounds of the buckets for lengths up to `longest`, which is the last."""
    bounds, bound = [], min(MIN_BUCKET, longest)
    while bound < longest:
        bounds.append(bound)
        bound = max(bound + 1, int(bound * BUCKET_RATIO))
    return (*bounds, longest)


def bucket_of(length: int, buckets: Sequence[int]) -> int:
    """Return the bucket that holds `length`: the least bound not below it, or the length itself above all."""
    return next((bound for bound in buckets if length <= bound), length)


def runs(
    lengths: Sequence[int],
    max_padding: float = MAX_PADDING,
    min_tokens: int = MIN_RUN_TOKENS,
) -> list[list[int]]:
    """Return row numbers in runs, longest rows first; a run is padded to its first row's length.

    A run ends where the next row would raise its padding above `max_padding`, unless it is still shorter
    than `min_tokens`.
    """
    by_length = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    batches: list[list[int]] = []
    tokens = 0
    for row in by_length:
        width = lengths[batches[-1][0]] if batches else 0
        padded = width * (len(batches[-1]) + 1) if batches else 0
        within = padded - tokens - lengths[row] <= max_padding * padded
        if batches and (within or padded - width < min_tokens):
            batches[-1].append(row)
            tokens += lengths[row]
        else:
            batches.append([row])
            tokens = lengths[row]
    return batches
