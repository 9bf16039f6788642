"""How fast the operator may write: one token bucket for everything, conditions first.

docs/design/design.md#writing: 50 writes a second. Without it, a restart over thousands of pools would be a flood
of writes that the API server must fend off by priority and fairness.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

WRITES_PER_SECOND = 50.0
BURST = 50.0


class Urgency(IntEnum):
    """Who goes first when there is a queue."""

    CONDITION = 0
    CHILD = 1
    EVENT = 2


@dataclass(slots=True)
class TokenBucket:
    """Tokens come at `rate` a second, up to `burst`; `now` in monotonic seconds."""

    rate: float = WRITES_PER_SECOND
    burst: float = BURST
    tokens: float = BURST
    updated: float = 0.0

    def take(self, now: float) -> float:
        """Take a token and return 0.0, or take none and return the seconds until there is one."""
        grown = self.tokens + max(0.0, now - self.updated) * self.rate
        self.tokens, self.updated = min(self.burst, grown), max(now, self.updated)
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        return (1.0 - self.tokens) / self.rate


@dataclass(slots=True)
class WriteBudget:
    """Lets writers through one by one, the most urgent first, in order of asking."""

    bucket: TokenBucket
    clock: Callable[[], float]
    _waiting: list[tuple[Urgency, int, asyncio.Future[None]]] = field(default_factory=list)
    _asked: int = 0
    _timer: asyncio.TimerHandle | None = None

    async def turn(self, urgency: Urgency) -> None:
        """Return when it is this writer's turn."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked += 1
        heapq.heappush(self._waiting, (urgency, self._asked, future))
        if self._timer is None:
            self._serve()
        await future

    def _serve(self) -> None:
        self._timer = None
        while self._waiting:
            if self._waiting[0][2].done():  # cancelled while it waited
                heapq.heappop(self._waiting)
                continue
            pause = self.bucket.take(self.clock())
            if pause > 0:
                self._timer = asyncio.get_running_loop().call_later(pause, self._serve)
                return
            heapq.heappop(self._waiting)[2].set_result(None)
