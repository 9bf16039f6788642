"""A rate with a little patience: a bucket of tokens that refills, seen at moments of one clock."""


class RateBucket:
    """Holds at most ten seconds' worth, at least one request."""

    __slots__ = ("_at", "_held", "_most", "_per_second")

    def __init__(self, per_minute: float, now: float) -> None:
        self._per_second = per_minute / 60
        self._most = max(1.0, self._per_second * 10)
        self._held = self._most
        self._at = now

    def take(self, now: float) -> float:
        """Take one and return 0, or return after how many seconds there will be one."""
        self._held = min(self._most, self._held + (now - self._at) * self._per_second)
        self._at = now
        if self._held >= 1.0:
            self._held -= 1.0
            return 0.0
        return (1.0 - self._held) / self._per_second
