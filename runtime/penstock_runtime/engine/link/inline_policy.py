"""Which batches are so short that handing them to another thread would cost more than running them.

Beside a busy event loop a run in the thread mostly waits for the interpreter, so it looks long whatever it costs. A run
that took little processor time there may therefore be tried in the loop again, ever more seldom while that fails: a
model that sleeps looks the same, and holds the loop for as long.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

BRIEF_SECONDS: Final = 0.0005
"""Two switches of threads that both want the interpreter cost 0.1 ms and more, on top of the batch."""
_LOOKED_BACK: Final = 8
"""Runs of a size whose shortest is believed: one that was interrupted says nothing of the next."""
_FORGETS_SECONDS: Final = 0.05
"""A run this long is believed at once: a model that has turned slow must not hold the loop again."""
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 60.0
"""Between trials."""


class InlinePolicy:
    """Knows how long runs of a size took lately; sizes that share a power of two count as one."""

    def __init__(self, brief_seconds: float) -> None:
        self._brief_seconds = brief_seconds
        self._seconds: dict[int, deque[float]] = {}
        self._misjudged: set[int] = set()
        """Sizes that may have looked long only because they waited for the interpreter."""
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._next_trial = 0.0

    def should_inline(self, rows: int, predicted_seconds: float, now: float) -> bool:
        """Return whether a run of `rows` should be brief: by what was seen, else by what is predicted."""
        size = rows.bit_length()
        seen = self._seconds.get(size)
        if (min(seen) if seen else predicted_seconds) <= self._brief_seconds:
            return True
        if size not in self._misjudged or now < self._next_trial:
            return False
        self._next_trial = now + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
        return True

    def record(self, runs: Iterable[tuple[int, float]]) -> None:
        """Learn from runs of so many rows that took so many seconds."""
        for rows, seconds in runs:
            seen = self._seconds.setdefault(rows.bit_length(), deque(maxlen=_LOOKED_BACK))
            if seconds >= _FORGETS_SECONDS:
                seen.clear()
            seen.append(seconds)
            if seconds <= self._brief_seconds:
                self._pause_seconds = _FIRST_PAUSE_SECONDS

    def record_offloaded(self, runs: Iterable[tuple[int, float]], cpu_seconds: float) -> None:
        """Learn from runs of one batch in the thread, which took so much processor time in all."""
        for rows, seconds in runs:
            self.record([(rows, seconds)])
            if cpu_seconds <= self._brief_seconds and seconds < _FORGETS_SECONDS:
                self._misjudged.add(rows.bit_length())
            else:
                self._misjudged.discard(rows.bit_length())
