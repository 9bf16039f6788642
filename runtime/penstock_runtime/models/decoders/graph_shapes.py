"""The few shapes that steps of one token a row are padded to: each is recorded once, so there must not be many."""

from typing import NamedTuple

MAX_ROWS = 256
"""Above this launches are hidden behind the kernels."""
MIN_BLOCKS = 8
"""Of a table; fewer are no faster."""


class GraphShape(NamedTuple):
    """Of a padded step."""

    rows: int
    blocks: int
    """Of each row's table."""


def padded_rows(rows: int) -> int:
    """Return 1, 2, 4, 8, then the next multiple of 8 up to 64, then of 16."""
    if rows <= 8:
        return 1 << (rows - 1).bit_length()
    unit = 8 if rows <= 64 else 16
    return -(-rows // unit) * unit


def padded(rows: int, blocks: int) -> GraphShape:
    """Return the least shape that holds `rows` whose longest table has so many blocks, which a power of two rounds up."""
    return GraphShape(padded_rows(rows), max(MIN_BLOCKS, 1 << (blocks - 1).bit_length()))
