"""Policies of an engine that shares a core with the event loop: which batches run in the loop, and which are held.

Next to a busy event loop, a run in the thread mostly waits for the GIL, so its wall time overstates its cost. A batch
size whose runs take little CPU time there is therefore tried in the loop again, with exponential back-off while runs
are long: a model that sleeps looks the same, and would block the loop.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from penstock_runtime.engine.dynamic.engine import BatchEngine

MAX_INLINE_SECONDS: Final = 0.0005
"""Longest batch that runs in the loop: two thread switches that wait for the GIL cost at least 0.1 ms."""
HOLD_SHARE = 0.1
"""Longest hold after a batch, as a share of its time, for requests whose texts are being tokenized."""
_HISTORY_RUNS: Final = 8
"""Recent runs per batch size; the shortest counts, because an interrupted run predicts nothing."""
_RESET_SECONDS: Final = 0.05
"""A run this long clears the history: a model that has become slow must not block the loop again."""
_FIRST_PAUSE_SECONDS: Final = 0.1
_MAX_PAUSE_SECONDS: Final = 60.0
"""Longest pause between trials."""


class InlinePolicy:
    """Decides by the recent run times of a batch size; sizes of the same power of two share their history."""

    def __init__(self, max_inline_seconds: float) -> None:
        self._max_seconds = max_inline_seconds
        self._seconds: dict[int, deque[float]] = {}
        self._misjudged: set[int] = set()
        """Sizes whose runs may look long only because the thread waited for the GIL."""
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._next_trial = 0.0

    def should_inline(self, rows: int, predicted_seconds: float, now: float) -> bool:
        """Return whether a batch of `rows` should run in the loop, by its history or else by the prediction."""
        size = rows.bit_length()
        history = self._seconds.get(size)
        if (min(history) if history else predicted_seconds) <= self._max_seconds:
            return True
        if size not in self._misjudged or now < self._next_trial:
            return False
        self._next_trial = now + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, _MAX_PAUSE_SECONDS)
        return True

    def record(self, runs: Iterable[tuple[int, float]]) -> None:
        """Record the rows and seconds of runs."""
        for rows, seconds in runs:
            history = self._seconds.setdefault(rows.bit_length(), deque(maxlen=_HISTORY_RUNS))
            if seconds >= _RESET_SECONDS:
                history.clear()
            history.append(seconds)
            if seconds <= self._max_seconds:
                self._pause_seconds = _FIRST_PAUSE_SECONDS

    def record_offloaded(self, runs: Iterable[tuple[int, float]], cpu_seconds: float) -> None:
        """Record the runs of one batch in the thread, and the CPU time of all of them."""
        for rows, seconds in runs:
            self.record([(rows, seconds)])
            if cpu_seconds <= self._max_seconds and seconds < _RESET_SECONDS:
                self._misjudged.add(rows.bit_length())
            else:
                self._misjudged.discard(rows.bit_length())


class MoreComingHint:
    """Decides whether to hold waiting requests for others that the event loop is about to send."""

    def __init__(self, more_coming: Callable[[], bool]) -> None:
        self._more_coming = more_coming
        self.until = 0.0
        """Time at which a hold ends."""

    def start(self, batch_seconds: float, now: float) -> None:
        """Start the hold that may follow a batch."""
        self.until = now + HOLD_SHARE * batch_seconds

    def holds(self, engine: BatchEngine, now: float) -> bool:
        """Return whether `engine` should hold its next batch until `until`."""
        return now < self.until and self._more_coming() and engine.may_hold_batch()
