"""`Mailbox`: the bounded queue of events between the engine and the task that answers one client."""

import asyncio
from collections import deque
from typing import Final

from penstock_runtime.engine.continuous.messages import Event, TokensEmitted
from penstock_runtime.serving.admission.memory_budget import UnreadTokens

MAX_TOKENS: Final = 16_384
"""Maximum unread tokens of one client per choice, minutes of a fast answer; a slower reader is cancelled."""
MAX_BYTES: Final = 2**26
"""Maximum memory of the unread tokens of all its choices."""
FREE_BYTES: Final = 2**16
"""Memory of the unread tokens of one client that is not counted, without that of its choices."""
FREE_CHOICE_BYTES: Final = 2**13
"""The same for each choice, some steps with 20 alternatives: a client that keeps up has less."""
TOKENS_PER_TURN: Final = 512
"""Tokens that are taken in one turn of the event loop; with 21 log-probabilities per token, their JSON takes 10 ms."""
TOKEN_BYTES: Final = 192
"""Memory of an unread token; measured: 188."""
LOGPROB_BYTES: Final = 128
"""Memory of the log-probability of an unread token or an alternative; measured: 125 with 20 alternatives."""


class Mailbox:
    """Events in order, put by the engine's deliveries, taken by the one task that writes to the client."""

    __slots__ = (
        "_bytes",
        "_counted_bytes",
        "_events",
        "_free_bytes",
        "_max_tokens",
        "_more",
        "_tokens",
        "_unread",
        "_waiter",
        "dropped",
    )

    def __init__(self, unread: UnreadTokens, choices: int = 1) -> None:
        """`unread` counts the tokens of all clients; `choices` are those of the whole request."""
        self._unread = unread
        self._free_bytes = FREE_BYTES + FREE_CHOICE_BYTES * choices
        self._events: deque[Event] = deque()
        self._tokens = 0
        self._bytes = 0
        self._counted_bytes = 0
        self._max_tokens = MAX_TOKENS * choices
        self._more = False
        """Whether the last turn left events."""
        self._waiter: asyncio.Future[None] | None = None
        self.dropped = False
        """Whether events were dropped, because unread tokens take too much memory and this client has the most."""

    def put(self, event: Event) -> bool:
        """Add `event` and wake the reader; return False if the unread tokens are too many, or were dropped."""
        if isinstance(event, TokensEmitted):
            tokens, size = self._tokens + len(event.tokens), self._bytes + _bytes_of(event)
            if self.dropped or tokens > self._max_tokens or size > MAX_BYTES:
                return False
            self._tokens = tokens
            self._resize(size)
            if self.dropped:
                return False
        self._events.append(event)
        _wake(self._waiter)
        return True

    async def take(self, seconds: float) -> list[Event]:
        """Return the next events, in a turn of the event loop of their own; wait up to `seconds` for the first.

        Events are missing if it is `dropped` afterwards.
        """
        if self._more:
            await asyncio.sleep(0)  # a write to a client that reads does not suspend
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
        events: list[Event] = []
        tokens, size = 0, self._bytes
        while self._events and tokens < TOKENS_PER_TURN:
            event = self._events.popleft()
            if isinstance(event, TokensEmitted):
                tokens += len(event.tokens)
                size -= _bytes_of(event)
            events.append(event)
        self._tokens -= tokens
        self._resize(size)
        self._more = bool(self._events)
        return events

    def drop(self) -> None:
        """Drop what was not taken, at the end of the request at the latest."""
        self.dropped, self._tokens = True, 0
        self._events.clear()
        self._resize(0)
        _wake(self._waiter)

    def _resize(self, size: int) -> None:
        """Set the bytes of the unread tokens."""
        self._bytes, counted = size, max(size - self._free_bytes, 0)
        if counted != self._counted_bytes:
            self._counted_bytes = counted
            self._unread.resize(self, counted)


def _bytes_of(event: TokensEmitted) -> int:
    tokens, logprobs = len(event.tokens), event.logprobs
    values = tokens * (1 + len(logprobs[0].top)) if logprobs else 0
    return TOKEN_BYTES * tokens + LOGPROB_BYTES * values


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
