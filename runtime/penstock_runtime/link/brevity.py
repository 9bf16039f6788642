"""Which batches are so short that handing them to another thread would cost more than running them."""

from collections import deque
from collections.abc import Iterable
from typing import Final

BRIEF_SECONDS: Final = 0.0005
"""Two switches of threads that both want the interpreter cost 0.1 ms and more, on top of the batch."""
_LOOKED_BACK: Final = 8
"""Runs of a size whose shortest is believed: one that was interrupted says nothing of the next."""
_FORGETS_SECONDS: Final = 0.05
"""A run this long is believed at once: a model that has turned slow must not hold the loop again."""


class Brevity:
    """Knows how long runs of a size took lately; sizes that share a power of two count as one."""

    def __init__(self, brief_seconds: float) -> None:
        self._brief_seconds = brief_seconds
        self._seconds: dict[int, deque[float]] = {}

    def is_brief(self, rows: int, predicted_seconds: float) -> bool:
        """Return whether a run of `rows` should be brief: by what was seen, else by what is predicted."""
        seen = self._seconds.get(rows.bit_length())
        return (min(seen) if seen else predicted_seconds) <= self._brief_seconds

    def note(self, runs: Iterable[tuple[int, float]]) -> None:
        """Learn from runs of so many rows that took so many seconds."""
        for rows, seconds in runs:
            seen = self._seconds.setdefault(rows.bit_length(), deque(maxlen=_LOOKED_BACK))
            if seconds >= _FORGETS_SECONDS:
                seen.clear()
            seen.append(seconds)
