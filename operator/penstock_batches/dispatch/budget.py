"""`ByteBudget`: bounds the bytes of lines and answers in memory, whose number alone bounds nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ByteBudget:
    """Gives out `limit` bytes in the order of the requests; one for more gets all of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait for `size` bytes, and hold them."""
        size = min(size, self._limit)
        async with self._turn:
            while self._used + size > self._limit:
                self._freed.clear()
                await self._freed.wait()
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            self._freed.set()
