"""Shapes that decode steps are padded to for CUDA graphs; few, since each is captured once."""

from typing import NamedTuple

MAX_ROWS = 256
"""Rows above which kernels hide their launches."""
MIN_BLOCKS = 8
"""Minimum blocks of a padded table; fewer are not faster."""


class GraphShape(NamedTuple):
    """Shape of a padded step."""

    rows: int
    blocks: int
    """Blocks of each row's table."""


def padded_rows(rows: int) -> int:
    """Return 1, 2, 4, 8, then the next multiple of 8 up to 64, then of 16."""
    if rows <= 8:
        return 1 << (rows - 1).bit_length()
    unit = 8 if rows <= 64 else 16
    return -(-rows // unit) * unit


def padded(rows: int, blocks: int) -> GraphShape:
    """Return the smallest shape for `rows` whose longest table has `blocks`, rounded up to a power of two."""
    return GraphShape(padded_rows(rows), max(MIN_BLOCKS, 1 << (blocks - 1).bit_length()))
