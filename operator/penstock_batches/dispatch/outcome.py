"""What a response of a pool means for a line; pure."""

import re
from enum import StrEnum
from typing import Final

from penstock_api import names

CAPACITY: Final = frozenset({408, 425, 429, 502, 503})
"""The pool has no room now: the line waits, however often."""
UNKNOWN_KEY: Final = frozenset({401, 403})
"""The pod has other keys than the service, which gets them up to a minute earlier or later: the line waits."""
KEYLESS_SECONDS: Final = 600.0
"""Time for which a tenant has no key before its lines are answered with that."""
FAILURES: Final = frozenset({500, 504})
"""The line may be the cause: it is sent again a few times."""
MAX_FAILURES: Final = 3
MAX_LOSSES: Final = 10
"""Connections and engines that may be lost after a line was sent, before the line counts as the cause."""
FIRST_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 30.0
SHOWN_BYTES: Final = 1024
"""Beginning of a response that has its error."""
_GATEWAY_RESET: Final = re.compile(
    rb"disconnect/reset before headers\. .*reset reason: (connection termination|remote reset)"
)
"""Envoy's error when a pod that had the request ended its connection, after all retries."""


class LineVerdict(StrEnum):
    """What to do with a line after a response."""

    OUTPUT = "Output"
    ERROR = "Error"
    WAIT = "Wait"
    """Send it again when the pool has room."""
    RETRY = "Retry"
    """Send it again, and count a failure."""


class Refuser(StrEnum):
    """What makes a line wait."""

    POOL = "Pool"
    """The pool has no room for lines of any tenant."""
    KEY = "Key"
    """The key is unknown or above its rate: lines of other tenants go on."""


def verdict(status: int, failures: int, retry_after_seconds: float | None = None) -> LineVerdict:
    """Return what a response with `status` means for a line that failed `failures` times before.

    A gateway that held a line until no pod came answers 504 with `Retry-After`; a pod whose line has a deadline has none.
    """
    if 200 <= status < 300:
        return LineVerdict.OUTPUT
    if status in CAPACITY or status in UNKNOWN_KEY:
        return LineVerdict.WAIT
    if status == 504 and retry_after_seconds is not None:
        return LineVerdict.WAIT
    if status in FAILURES and failures + 1 < MAX_FAILURES:
        return LineVerdict.RETRY
    return LineVerdict.ERROR


def pod_lost(status: int, content: bytes) -> bool:
    """Return whether a response means that the pod was lost, or its engine died or got stuck, while it had the line, among others."""
    error = content[:SHOWN_BYTES]
    if status == 503 and _GATEWAY_RESET.search(error):
        return True
    return status in (500, 503) and names.ENGINE_DIED.encode() in error


def pause_seconds(times: int, share: float) -> float:
    """Return how long a line waits that failed or was lost `times` times; `share` is from 0 to 1.

    Of the lines that an engine had when it died one is often the cause: the pause separates the others from it.
    """
    return share * min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (times - 1))


def refuser(status: int, key_rate: float | None) -> Refuser:
    """Return what makes a line wait with `status`; `key_rate` is the limit of its key, None without one.

    A 429 does not say whose limit it is. With a limited key it counts as the key's, whose window finds the pool's too.
    """
    if status in UNKNOWN_KEY or (status == 429 and key_rate is not None):
        return Refuser.KEY
    return Refuser.POOL


def key_is_gone(keyless_since: float, now: float) -> bool:
    """Return whether a tenant without a key since then gets none any more."""
    return now - keyless_since >= KEYLESS_SECONDS


def retry_after(text: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; None if it has none or a date."""
    if text is None or not text.isascii() or not text.isdigit():
        return None
    return float(text[:6])
