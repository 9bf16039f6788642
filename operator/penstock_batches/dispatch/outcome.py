"""What a response of a pool means for a line; pure."""

from enum import StrEnum
from typing import Final

CAPACITY: Final = frozenset({408, 425, 429, 502, 503})
"""The pool has no room now: the line waits, however often."""
FAILURES: Final = frozenset({500, 504})
"""The line may be the cause: it is sent again a few times."""
MAX_FAILURES: Final = 3
MAX_LOSSES: Final = 10
"""Connections that may be lost after a line was sent, before the line counts as the cause."""


class LineVerdict(StrEnum):
    """What to do with a line after a response."""

    OUTPUT = "Output"
    ERROR = "Error"
    WAIT = "Wait"
    """Send it again when the pool has room."""
    RETRY = "Retry"
    """Send it again, and count a failure."""


def verdict(status: int, failures: int) -> LineVerdict:
    """Return what a response with `status` means for a line that failed `failures` times before."""
    if 200 <= status < 300:
        return LineVerdict.OUTPUT
    if status in CAPACITY:
        return LineVerdict.WAIT
    if status in FAILURES and failures + 1 < MAX_FAILURES:
        return LineVerdict.RETRY
    return LineVerdict.ERROR


def retry_after(text: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; None if it has none or a date."""
    if text is None or not text.isascii() or not text.isdigit():
        return None
    return float(text[:6])
