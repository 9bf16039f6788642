"""`OfferedRows`: the demand that a pool's gateway counted, in rows. Pure.

The gateway counts requests; the pods know how many rows a request has.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock_operator.decide.scaling.signals.counters import Point
from penstock_operator.decide.scaling.signals.windows import Window
from penstock_operator.observed import OfferedDemand

DIRECT_SHARE: Final = 0.1
DIRECT_ROWS: Final = 1.0
"""Rows a second at pods beyond those of the gateway, as a share and absolutely, up to which they are requests that were
sent again, or counted at another moment."""


class OfferedRows(NamedTuple):
    """`OfferedDemand` in rows a second."""

    recent: float
    newest: float
    window: float


def offered_rows(offered: OfferedDemand | None, windows: Iterable[Window]) -> OfferedRows | None:
    """Return the gateway's count by the mean rows of a request over the pods' windows, 1 without requests; None without one.

    Requests of batch work have no rows, so they lower the mean.
    """
    if offered is None:
        return None
    pairs = [
        (requests, rows)
        for window in windows
        if (requests := grown(window, "requests_received")) is not None
        and (rows := grown(window, "rows_received")) is not None
    ]
    requests, rows = (sum(part) for part in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
    each = rows / requests if requests > 0 else 1.0
    return OfferedRows(*(rate * each for rate in offered))


def is_all(counted: float, received: float) -> bool:
    """Return whether the gateway counted all demand, in rows a second.

    Pods that received more come from clients that reach them directly as well, such as those who connected before the
    pool was routed.
    """
    return received <= counted * (1 + DIRECT_SHARE) + DIRECT_ROWS


def grown(window: Sequence[Point], key: str) -> float | None:
    """Return the growth of a counter over the window; None if it is absent."""
    first: float | None = window[0].counters.get(key)
    last: float | None = window[-1].counters.get(key)
    return None if first is None or last is None else max(last - first, 0.0)
