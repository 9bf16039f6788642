"""Series as small charts of block characters. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite, nan

BLOCKS = " ▁▂▃▄▅▆▇█"
UNKNOWN = "·"


def shrunk(values: Sequence[float], width: int) -> list[float]:
    """Return at most `width` values, the maximum of each interval, so that bursts remain visible."""
    if len(values) <= width:
        return list(values)
    cuts = [round(index * len(values) / width) for index in range(width + 1)]
    parts = (values[a:b] for a, b in pairwise(cuts))
    return [max((value for value in part if isfinite(value)), default=nan) for part in parts]


def chart(values: Sequence[float], width: int = 60, height: int = 1) -> list[str]:
    """Return `height` lines of blocks from 0 to the maximum; unknown values are dots on the lowest line."""
    shown = shrunk(values, width)
    top = max((value for value in shown if isfinite(value)), default=0.0)
    return [_line(shown, top, level, height) for level in reversed(range(height))]


def _line(values: Sequence[float], top: float, level: int, height: int) -> str:
    return "".join(_block(value, top, level, height) for value in values)


def _block(value: float, top: float, level: int, height: int) -> str:
    if not isfinite(value):
        return UNKNOWN if level == 0 else " "
    full = len(BLOCKS) - 1
    filled = 0 if top <= 0 else round(value / top * full * height) - level * full
    return BLOCKS[max(min(filled, full), 1 if level == 0 and value > 0 else 0)]


def extent(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the minimum, the maximum and the last of the known values; None if there are none."""
    known = [value for value in values if isfinite(value)]
    return (min(known), max(known), known[-1]) if known else None
