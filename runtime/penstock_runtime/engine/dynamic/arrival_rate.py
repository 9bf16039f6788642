"""How fast rows arrive: an exponentially fading count, so the rate needs neither buckets nor a timer."""

import math

MEMORY_SECONDS = 1.0
"""Long against a batch, short against a change of load worth noticing."""


class ArrivalRate:
    """Rows per second over about the last MEMORY_SECONDS."""

    __slots__ = ("_counted", "_time")

    def __init__(self) -> None:
        self._counted = 0.0
        self._time = 0.0

    def note(self, rows: int, now: float) -> None:
        """Count `rows` that arrived at `now`."""
        if now > self._time:
            self._counted = self._faded(now)
            self._time = now
        self._counted += rows

    def rows_per_second(self, now: float, *, besides: int = 0) -> float:
        """Return the rate as of `now`, of all but `besides` rows that came lately."""
        return max(0.0, self._faded(now) - besides) / MEMORY_SECONDS

    def _faded(self, now: float) -> float:
        return self._counted * math.exp(-max(0.0, now - self._time) / MEMORY_SECONDS)
