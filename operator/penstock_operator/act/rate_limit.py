"""Rate limit of writes: one token bucket for all, which serves children first, then statuses, then samples, checkpoints and Events.

50 writes a second (docs/design/design.md#writing). Without it a restart with thousands of pools would send bursts that
API Priority and Fairness has to queue.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

WRITES_PER_SECOND = 50.0
BURST = 50.0


class Urgency(IntEnum):
    """Priority of queued writes, the lowest first."""

    CHILD = 0
    """Replicas and limits must not wait for the statuses of thousands of pools, as after a change of leader."""
    CONDITION = 1
    EVENT = 2
    """Also checkpoints, and a status in which only samples or messages changed; no pass waits for them (`background.py`)."""


@dataclass(slots=True)
class TokenBucket:
    """Token bucket with `rate` tokens per second, up to `burst`; `now` in monotonic seconds."""

    rate: float = WRITES_PER_SECOND
    burst: float = BURST
    tokens: float = BURST
    updated: float = 0.0

    def take(self, now: float) -> float:
        """Take a token and return 0.0, or take none and return the seconds until the next one."""
        grown = self.tokens + max(0.0, now - self.updated) * self.rate
        self.tokens, self.updated = min(self.burst, grown), max(now, self.updated)
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        return (1.0 - self.tokens) / self.rate


@dataclass(slots=True)
class WriteBudget:
    """Admits writers one by one, by urgency and then in order of arrival."""

    bucket: TokenBucket
    clock: Callable[[], float]
    _waiting: list[tuple[Urgency, int, asyncio.Future[None]]] = field(default_factory=list)
    _sequence: int = 0
    _timer: asyncio.TimerHandle | None = None

    async def turn(self, urgency: Urgency) -> None:
        """Wait for this writer's turn."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heapq.heappush(self._waiting, (urgency, self._sequence, future))
        if self._timer is None:
            self._serve()
        await future

    def _serve(self) -> None:
        self._timer = None
        while self._waiting:
            if self._waiting[0][2].done():  # cancelled while waiting
                heapq.heappop(self._waiting)
                continue
            pause = self.bucket.take(self.clock())
            if pause > 0:
                self._timer = asyncio.get_running_loop().call_later(pause, self._serve)
                return
            heapq.heappop(self._waiting)[2].set_result(None)
