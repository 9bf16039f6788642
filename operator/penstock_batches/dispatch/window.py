"""`Window`: how many lines may be in flight to a pool, as TCP's congestion window; pure, time is `now` in monotonic seconds."""

from dataclasses import dataclass
from typing import Final

START: Final = 4.0
MIN_BACKOFF_SECONDS: Final = 0.25
MAX_BACKOFF_SECONDS: Final = 30.0


@dataclass(slots=True)
class Window:
    """Grows by one with each answer up to the threshold and by one with each round above it; halves on a rejection."""

    limit: int
    """Its size, at most."""
    size: float = START
    threshold: float = float("inf")
    """Size from which it grows slowly: half of that at the last rejection."""
    paused_until: float = 0.0
    rejections: int = 0
    """Rejections in a row, without an answer between them."""

    def __post_init__(self) -> None:
        self.size = min(self.size, float(self.limit))

    def places(self, in_flight: int, now: float) -> int:
        """Return how many more lines may be sent now."""
        return max(0, int(self.size) - in_flight) if now >= self.paused_until else 0

    def answered(self) -> None:
        """Grow after an answer."""
        self.rejections = 0
        growth = 1.0 if self.size < self.threshold else 1.0 / self.size
        self.size = min(float(self.limit), self.size + growth)

    def rejected(self, now: float, retry_after_seconds: float | None, jitter: float) -> float:
        """Shrink and pause after a rejection or a lost connection; return when to try again.

        One that arrives during a pause is of the same burst and changes nothing. `jitter` is from 0 to 1.
        """
        if now < self.paused_until:
            return self.paused_until
        self.rejections += 1
        self.threshold = max(1.0, self.size / 2)
        self.size = self.threshold
        backoff = min(MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS * 2 ** min(self.rejections - 1, 10))
        wait = (
            backoff
            if retry_after_seconds is None
            else max(retry_after_seconds, MIN_BACKOFF_SECONDS)
        )
        self.paused_until = now + min(wait, MAX_BACKOFF_SECONDS) * (1 + 0.25 * jitter)
        return self.paused_until
