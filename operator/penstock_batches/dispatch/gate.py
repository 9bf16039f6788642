"""`PoolGate`: the places of one pool, which attempts of lines wait for and give back."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from penstock_batches.dispatch.window import Window

MAX_WAIT_SECONDS: Final = 1.0
"""Time after which a waiter looks at the window again, whatever happens."""


class PoolGate:
    """Bounds the attempts in flight to a pool by its window."""

    def __init__(self, limit: int) -> None:
        self.window = Window(limit)
        self.in_flight = 0
        self.held = 0
        """Lines that are leased for the pool: in flight, or between two attempts."""
        self._changed = asyncio.Condition()

    @property
    def room(self) -> int:
        """Lines that may be leased now."""
        return self.window.places(self.held, time.monotonic())

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place for one attempt."""
        while self.window.places(self.in_flight, time.monotonic()) == 0:
            await self._wait()
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            async with self._changed:
                self._changed.notify(1)

    def answered(self) -> None:
        """Grow the window."""
        self.window.answered()

    def rejected(self, retry_after_seconds: float | None) -> None:
        """Shrink the window and pause."""
        jitter = random.random()  # noqa: S311  spreads retries
        self.window.rejected(time.monotonic(), retry_after_seconds, jitter)

    async def _wait(self) -> None:
        pause = self.window.paused_until - time.monotonic()
        if pause > 0:
            await asyncio.sleep(min(pause, MAX_WAIT_SECONDS))
            return
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return
