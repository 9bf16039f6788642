"""What the engine said to one client and the client has not read yet: bounded, and never in a step's way."""

import asyncio
from typing import Final

from penstock_runtime.engine.continuous.messages import Event, TokensEmitted

MOST_TOKENS: Final = 16_384
"""Unread tokens of one client: minutes of a fast answer. Who falls further behind is given up."""


class Mailbox:
    """Events in order, put by the engine's deliveries, taken by the one task that writes to the client."""

    __slots__ = ("_events", "_most", "_tokens", "_waiter")

    def __init__(self, most_tokens: int = MOST_TOKENS) -> None:
        self._events: list[Event] = []
        self._tokens = 0
        self._most = most_tokens
        self._waiter: asyncio.Future[None] | None = None

    def put(self, event: Event) -> bool:
        """Add `event` and wake the reader; return False where the reader is too far behind for its tokens."""
        if isinstance(event, TokensEmitted):
            self._tokens += len(event.tokens)
            if self._tokens > self._most:
                return False
        self._events.append(event)
        _wake(self._waiter)
        return True

    async def take(self, seconds: float) -> list[Event]:
        """Return all that came since the last call; wait for it, but after `seconds` return nothing."""
        if not self._events:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            # a timer rather than asyncio.timeout: this is run for every token of every stream
            timer = loop.call_later(seconds, _wake, self._waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        events, self._events, self._tokens = self._events, [], 0
        return events


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
