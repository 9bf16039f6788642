"""`length_buckets` and `runs`: batches of rows of unequal length (texts) with little padding.

A model that packs its rows without padding does not use this: all lengths share one group. For other models, the
group of a request contains the bucket of its length. Groups compete by the key of their first request, which ages, so
a rare length waits no longer than any other request of its discipline.
"""

from collections.abc import Sequence

MIN_BUCKET = 16
BUCKET_RATIO = 1.5
"""Ratio of the longest to the shortest row of a bucket: at most a third of a batch is padding."""
MAX_PADDING = 0.1
"""Maximum share of padding in a run; a batch with more is split into several runs."""
MIN_RUN_TOKENS = 512
"""Minimum tokens of a run: a smaller one costs more in fixed time than it saves in padding."""


def length_buckets(longest: int) -> tuple[int, ...]:
    """Return ascending upper bounds of the buckets for lengths up to `longest`, which is the last."""
    bounds, bound = [], min(MIN_BUCKET, longest)
    while bound < longest:
        bounds.append(bound)
        bound = max(bound + 1, int(bound * BUCKET_RATIO))
    return (*bounds, longest)


def bucket_of(length: int, buckets: Sequence[int]) -> int:
    """Return the bucket of `length`: the smallest bound that is at least `length`, or `length` if it exceeds all."""
    return next((bound for bound in buckets if length <= bound), length)


def runs(
    lengths: Sequence[int],
    max_padding: float = MAX_PADDING,
    min_tokens: int = MIN_RUN_TOKENS,
) -> list[list[int]]:
    """Return runs of row indices, longest rows first; a run is padded to the length of its first row.

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
