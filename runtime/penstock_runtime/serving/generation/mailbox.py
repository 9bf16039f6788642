"""`Mailbox`: the bounded queue of events between the engine and the task that answers one client."""

import asyncio
from typing import Final

from penstock_runtime.engine.continuous.messages import Event, TokensEmitted

MAX_TOKENS: Final = 16_384
"""Maximum unread tokens of one client, minutes of a fast answer; a slower reader is cancelled."""


class Mailbox:
    """Events in order, put by the engine's deliveries, taken by the one task that writes to the client."""

    __slots__ = ("_events", "_max_tokens", "_tokens", "_waiter")

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self._events: list[Event] = []
        self._tokens = 0
        self._max_tokens = max_tokens
        self._waiter: asyncio.Future[None] | None = None

    def put(self, event: Event) -> bool:
        """Add `event` and wake the reader; return False if the reader has too many unread tokens."""
        if isinstance(event, TokensEmitted):
            self._tokens += len(event.tokens)
            if self._tokens > self._max_tokens:
                return False
        self._events.append(event)
        _wake(self._waiter)
        return True

    async def take(self, seconds: float) -> list[Event]:
        """Return the events since the last call; wait up to `seconds` for the first."""
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
