"""Which pools are to be visited, and when. Pure: monotonic seconds come in as `now`.

Visits that the tick causes fall on a common grid, so that one round of questions to Prometheus serves all
pools; an event only makes a pool due sooner (docs/design/design.md#layers).
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from math import floor, inf

ACTIVE_SECONDS = 5.0
IDLE_SECONDS = 30.0
DEBOUNCE_SECONDS = 0.05
"""A change arrives as a burst of events: one visit serves them all."""
SPACING_SECONDS = 0.25
"""Least time between two visits of a pool, whatever happens to it."""
MAX_BATCH, MIN_BATCH = 500, 50
"""Pools of one pass, at most and at least."""
HOLD_SECONDS = 0.5
"""How long deciding on a batch may keep the event loop, and with it the health probe, waiting: the first pass over pools just
met takes three times as long as others, and a process that shares its core with many takes ten times as long."""


def batch_size(before: int, pools: int, seconds: float) -> int:
    """Return how many pools to decide on at once, where `pools` took `seconds` and `before` was the size until then.

    Few pools say nothing of many: what a pass costs whatever its size would weigh too much.
    """
    if pools < MIN_BATCH:
        return before
    return max(MIN_BATCH, min(MAX_BATCH, int(HOLD_SECONDS * pools / max(seconds, 1e-9))))


@dataclass(slots=True)
class WorkQueue:
    """When each pool is due."""

    batch: int = MIN_BATCH
    """How many are taken at once."""
    _at: dict[str, float] = field(default_factory=dict)
    late: tuple[float, ...] = ()
    """By how many seconds each pool of the last batch that had a pace was behind it; event-caused visits are not."""
    _visited: dict[str, float] = field(default_factory=dict)
    _pace: dict[str, float] = field(default_factory=dict)

    def add(self, uid: str, now: float) -> None:
        """Something happened to a pool: it is due almost at once."""
        soonest = self._visited.get(uid, -inf) + SPACING_SECONDS
        self.schedule(uid, max(now + DEBOUNCE_SECONDS, soonest))

    def schedule(self, uid: str, at: float) -> None:
        """Make a pool due at `at`, unless it is due sooner."""
        self._at[uid] = min(at, self._at.get(uid, inf))

    def requeue_after(self, uid: str, at: float) -> None:
        """Make a pool due at `at` for another reason than its pace."""
        self._pace.pop(uid, None)
        self.schedule(uid, at)

    def schedule_resync(self, uid: str, now: float, *, active: bool) -> None:
        """Make a pool due at the next point of the grid of its pace."""
        every = self._pace[uid] = ACTIVE_SECONDS if active else IDLE_SECONDS
        self.schedule(uid, (floor(now / every) + 1) * every)

    def pop(self, now: float, busy: Collection[str]) -> list[str]:
        """Return the pools that are due and not being visited, and take them off the queue."""
        due = [uid for uid, at in self._at.items() if at <= now and uid not in busy]
        due = due[: self.batch]
        paced = [uid for uid in due if uid in self._pace and uid in self._visited]
        self.late = tuple(max(now - self._visited[uid] - self._pace[uid], 0.0) for uid in paced)
        for uid in due:
            del self._at[uid]
            self._visited[uid] = now
        return due

    def next_at(self, busy: Collection[str]) -> float:
        """Return when the next pool that is not being visited is due; infinity if none is."""
        return min((at for uid, at in self._at.items() if uid not in busy), default=inf)

    def decided(self, pools: int, seconds: float) -> None:
        """Take note of how long deciding on so many pools took."""
        self.batch = batch_size(self.batch, pools, seconds)

    def forget(self, uid: str) -> None:
        """Drop a pool that is gone."""
        self._at.pop(uid, None)
        self._visited.pop(uid, None)
        self._pace.pop(uid, None)

    def rest(self) -> None:
        """Nobody is visited for a while: who is behind then is behind by no fault of the loop's."""
        self._pace.clear()
