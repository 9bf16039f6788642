"""`Mailbox`: the bounded queue of events between the engine and the task that answers one client."""

import asyncio
from typing import Final

from penstock_runtime.engine.continuous.messages import Event, TokensEmitted

MAX_TOKENS: Final = 16_384
"""Maximum unread tokens of one client per choice, minutes of a fast answer; a slower reader is cancelled."""
MAX_BYTES: Final = 2**26
"""Maximum memory of the unread tokens of all its choices."""
TOKEN_BYTES: Final = 192
"""Memory of an unread token; measured: 188."""
LOGPROB_BYTES: Final = 128
"""Memory of the log-probability of an unread token or an alternative; measured: 125 with 20 alternatives."""


class Mailbox:
    """Events in order, put by the engine's deliveries, taken by the one task that writes to the client."""

    __slots__ = ("_bytes", "_events", "_max_tokens", "_tokens", "_waiter")

    def __init__(self, choices: int = 1) -> None:
        """`choices` are those of the whole request."""
        self._events: list[Event] = []
        self._tokens = 0
        self._bytes = 0
        self._max_tokens = MAX_TOKENS * choices
        self._waiter: asyncio.Future[None] | None = None

    def put(self, event: Event) -> bool:
        """Add `event` and wake the reader; return False if the reader has too many unread tokens."""
        if isinstance(event, TokensEmitted):
            tokens, logprobs = len(event.tokens), event.logprobs
            values = tokens * (1 + len(logprobs[0].top)) if logprobs else 0
            self._tokens += tokens
            self._bytes += TOKEN_BYTES * tokens + LOGPROB_BYTES * values
            if self._tokens > self._max_tokens or self._bytes > MAX_BYTES:
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
        events, self._events = self._events, []
        self._tokens = self._bytes = 0
        return events


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
