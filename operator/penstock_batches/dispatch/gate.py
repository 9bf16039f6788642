"""`PoolGate`: the places of one pool; `TenantGate`: those of a tenant, which attempts of lines wait for and give back."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from penstock_batches.dispatch.budget import ByteBudget
from penstock_batches.dispatch.outcome import Refuser, key_is_gone
from penstock_batches.dispatch.window import Window

MAX_WAIT_SECONDS: Final = 1.0
"""Time after which a waiter looks at the windows again, whatever happens."""
KEYLESS_PAUSE_SECONDS: Final = 5.0
BODIES_BYTES: Final = 32 * 2**20
"""Lines in flight to one pool, whose slowness then delays no line of another."""


class PoolGate:
    """Bounds the attempts in flight to a pool by its window."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tenants: dict[str, TenantGate] = {}
        self.window = Window(limit)
        self.bodies = ByteBudget(BODIES_BYTES)
        self.in_flight = 0
        self.changed = asyncio.Condition()

    def tenant(self, name: str) -> "TenantGate":
        """Return the gate of a tenant."""
        if name not in self._tenants:
            self._tenants[name] = TenantGate(self, self._limit)
        return self._tenants[name]

    def keep(self, tenants: Set[str]) -> None:
        """Forget the gates of other tenants that hold no line."""
        for name, gate in list(self._tenants.items()):
            if name not in tenants and gate.held == 0:
                del self._tenants[name]

    def room(self, now: float) -> int:
        """Return how many more lines may be leased now, of any tenant."""
        return self.window.places(sum(gate.taken(now) for gate in self._tenants.values()), now)


class TenantGate:
    """Bounds the attempts of one tenant by a window of its own, under that of the pool: a refusal of its key slows no other tenant."""

    def __init__(self, pool: PoolGate, limit: int) -> None:
        self._pool = pool
        self._limit = limit
        self._keyless_since: float | None = None
        self.window = Window(limit)
        self.in_flight = 0
        self.held = 0
        """Lines that are leased for it: in flight, or between two attempts."""
        self.asleep = 0
        """Those of them that pause and take no place."""

    @property
    def room(self) -> int:
        """Lines that may be leased now."""
        now = time.monotonic()
        places = self.window.places(self.held - self.asleep, now)
        return min(places, self._pool.room(now), max(0, self._limit - self.asleep))

    def taken(self, now: float) -> int:
        """Return how many places of the pool its lines have, or may take now."""
        waiting = self.held - self.in_flight - self.asleep
        return self.in_flight + min(waiting, self.window.places(self.in_flight, now))

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place for one attempt."""
        while not self._free(time.monotonic()):
            await self._wait()
        self.in_flight += 1
        self._pool.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._pool.in_flight -= 1
            async with self._pool.changed:
                self._pool.changed.notify_all()  # one alone may be of a tenant that pauses

    async def sleep(self, seconds: float) -> None:
        """Pause a line between two attempts."""
        self.asleep += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.asleep -= 1

    def body_room(self, size: int) -> AbstractAsyncContextManager[None]:
        """Hold the memory of a line of `size` bytes."""
        return self._pool.bodies.room(size)

    def answered(self) -> None:
        """Grow the windows."""
        self.window.answered()
        self._pool.window.answered()

    def rejected(self, refuser: Refuser, retry_after_seconds: float | None) -> None:
        """Shrink the window of the tenant or of the pool, and pause it."""
        jitter = random.random()  # noqa: S311  spreads retries
        window = self.window if refuser is Refuser.KEY else self._pool.window
        window.rejected(time.monotonic(), retry_after_seconds, jitter)

    def keyed(self) -> None:
        """Take note that the tenant has a key."""
        self._keyless_since = None

    def keyless(self) -> bool:
        """Return whether the tenant's last key is gone for good; pause as long as another may come."""
        now = time.monotonic()
        if self._keyless_since is None:
            self._keyless_since = now
        gone = key_is_gone(self._keyless_since, now)
        if not gone:
            self.rejected(Refuser.KEY, KEYLESS_PAUSE_SECONDS)
        return gone

    def _free(self, now: float) -> bool:
        own, pool = self.window, self._pool.window
        return own.places(self.in_flight, now) > 0 and pool.places(self._pool.in_flight, now) > 0

    async def _wait(self) -> None:
        until = max(self.window.paused_until, self._pool.window.paused_until)
        pause = until - time.monotonic()
        if pause > 0:
            await asyncio.sleep(min(pause, MAX_WAIT_SECONDS))
            return
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS), self._pool.changed:
                await self._pool.changed.wait()
        except TimeoutError:
            return
