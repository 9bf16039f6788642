"""`RateBucket`: a token bucket."""


class RateBucket:
    """Limits a rate; its capacity is ten seconds of it, and at least one request."""

    __slots__ = ("_capacity", "_per_second", "_tokens", "_updated")

    def __init__(self, per_minute: float, now: float) -> None:
        self._per_second = per_minute / 60
        self._capacity = max(1.0, self._per_second * 10)
        self._tokens = self._capacity
        self._updated = now

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        self._tokens = min(self._capacity, self._tokens + (now - self._updated) * self._per_second)
        self._updated = now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._per_second
