"""Work queue of the reconciler: which pools are due, and when. Times are monotonic seconds, passed as `now`.

Periodic reconciles are aligned to a common grid, so that one round of Prometheus queries serves all pools; an event
only brings a reconcile forward (docs/design/design.md#layers).
"""

import asyncio
from dataclasses import dataclass, field
from math import floor, inf

ACTIVE_SECONDS = 5.0
IDLE_SECONDS = 30.0
DEBOUNCE_SECONDS = 0.05
"""A change arrives as a burst of events: one reconcile handles them all."""
SPACING_SECONDS = 0.25
"""Minimum time between the starts of two reconciles of a pool."""
MIN_WAIT_SECONDS = 0.001
MAX_BATCH, MIN_BATCH = 500, 50
"""Bounds of the number of pools in one pass."""
HOLD_SECONDS = 0.5
"""Target duration of one decide step, during which the event loop answers no health probe. The first pass over new pools
takes three times as long as later ones, and on a shared core a step can take ten times as long."""


def batch_size(before: int, pools: int, seconds: float) -> int:
    """Return how many pools to decide in one pass, given that deciding `pools` took `seconds`.

    After a pass of fewer than `MIN_BATCH` pools the size stays `before`: its fixed cost would dominate the estimate.
    """
    if pools < MIN_BATCH:
        return before
    return max(MIN_BATCH, min(MAX_BATCH, int(HOLD_SECONDS * pools / max(seconds, 1e-9))))


@dataclass(slots=True)
class WorkQueue:
    """When each pool is due, and which pools are being reconciled."""

    batch: int = MIN_BATCH
    """Maximum number of pools that one `pop` returns."""
    lateness: tuple[float, ...] = ()
    """Seconds by which each periodic reconcile of the last batch was late; event-triggered ones are left out."""
    _due_at: dict[str, float] = field(default_factory=dict)
    _visited_at: dict[str, float] = field(default_factory=dict)
    _pace: dict[str, float] = field(default_factory=dict)
    _processing: set[str] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, uid: str, now: float) -> None:
        """Make a pool due after the debounce time, because of an event."""
        soonest = self._visited_at.get(uid, -inf) + SPACING_SECONDS
        self.schedule(uid, max(now + DEBOUNCE_SECONDS, soonest))

    def schedule(self, uid: str, at: float) -> None:
        """Make a pool due at `at`, unless it is due sooner."""
        self._due_at[uid] = min(at, self._due_at.get(uid, inf))
        self._changed.set()

    def requeue_after(self, uid: str, at: float) -> None:
        """Make a pool due at `at`, outside its periodic interval, such as after a failure."""
        self._pace.pop(uid, None)
        self.schedule(uid, at)

    def schedule_resync(self, uid: str, now: float, *, active: bool) -> None:
        """Make a pool due at the next grid point of its interval."""
        pace = self._pace[uid] = ACTIVE_SECONDS if active else IDLE_SECONDS
        self.schedule(uid, (floor(now / pace) + 1) * pace)

    def pop(self, now: float) -> list[str]:
        """Return at most `batch` pools that are due; they are not due again before `done`."""
        due = [uid for uid, at in self._due_at.items() if at <= now and uid not in self._processing]
        due = due[: self.batch]
        paced = [uid for uid in due if uid in self._pace and uid in self._visited_at]
        self.lateness = tuple(
            max(now - self._visited_at[uid] - self._pace[uid], 0.0) for uid in paced
        )
        for uid in due:
            del self._due_at[uid]
            self._visited_at[uid] = now
        self._processing.update(due)
        return due

    def done(self, uid: str) -> None:
        """Mark the reconcile of a pool as finished."""
        self._processing.discard(uid)
        self._changed.set()

    def next_at(self) -> float:
        """Return when the next pool that is not being reconciled is due; infinity if there is none."""
        waiting = (at for uid, at in self._due_at.items() if uid not in self._processing)
        return min(waiting, default=inf)

    async def wait(self, seconds: float) -> None:
        """Wait, or return early when a pool was scheduled or done."""
        self._changed.clear()
        try:
            # Not wait_for: before Python 3.12 it loses a cancellation that coincides with the event.
            async with asyncio.timeout(max(seconds, MIN_WAIT_SECONDS)):
                await self._changed.wait()
        except TimeoutError:
            return

    def record_decide_time(self, pools: int, seconds: float) -> None:
        """Adapt the batch size to the time that deciding on this many pools took."""
        self.batch = batch_size(self.batch, pools, seconds)

    def forget(self, uid: str) -> None:
        """Drop a deleted pool."""
        self._due_at.pop(uid, None)
        self._visited_at.pop(uid, None)
        self._pace.pop(uid, None)

    def clear_paces(self) -> None:
        """Drop all intervals when reconciles pause, so that the pause does not count as lateness."""
        self._pace.clear()
