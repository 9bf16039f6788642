"""Throttles connections that receive too many 429s: reading pauses for a time that grows with the rejection rate.

A client that retries at once can turn rejections into all of the pod's work. Above a rejection rate, a rejected
connection is therefore not read for a while (docs/design/runtime.md#overload): its next request stays in the socket,
where it costs nothing, and TCP flow control slows the client down.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Protocol

from aiohttp import web
from typing_extensions import override

from penstock_runtime.protocols.common.headers import (
    HEADER_TIMEOUT,
    MAX_MILLISECONDS,
    parse_integer,
)

WINDOW_SECONDS: Final = 0.1
"""The length of a window in which rejections are counted."""
AVERAGED_WINDOWS: Final = 4
"""The number of windows over which the rejection rate is averaged, with or without a rejection in them."""
UNTHROTTLED_RATE: Final = 250.0
"""Rejections a second below which nothing is throttled: 1 % of a core, or 2 % where each interrupts a long batch."""
MIN_PAUSE_SECONDS: Final = 0.05
TICK_SECONDS: Final = 0.05
"""Pauses end together at ticks, so that one round of the event loop rejects many requests: each round takes the core from a batch."""
MAX_PAUSE_SECONDS: Final = 0.5
"""Short enough for clients whose deadline is a second."""
JITTER: Final = 0.25
"""The relative spread of a pause to both sides, so that clients rejected together do not return together."""
MAX_TIMEOUT_SHARE: Final = 0.5
"""The largest share of a client's timeout that a pause takes: a request that arrives during the pause ages in the socket."""
TOO_MANY_REQUESTS: Final = 429
"""The status of the rejections that count."""


class Throttled(Protocol):
    """A connection whose reading is paused."""

    def resume(self) -> None:
        """Read again."""


class TimerWheel:
    """Resumes connections at ticks: all whose pauses end within one tick share a timer."""

    def __init__(self, call_later: Callable[..., object], now: Callable[[], float]) -> None:
        self._call_later = call_later
        self._now = now
        self._due: dict[int, list[Throttled]] = {}

    def set(self, seconds: float, connection: Throttled) -> None:
        """Resume `connection` in `seconds`, or up to a tick earlier, but at the next tick at the earliest."""
        now = self._now()
        tick = max(int((now + seconds) / TICK_SECONDS), int(now / TICK_SECONDS) + 1)
        due = self._due.get(tick)
        if due is None:
            due = self._due[tick] = []
            self._call_later(tick * TICK_SECONDS - now, self._fire, tick)
        due.append(connection)

    def _fire(self, tick: int) -> None:
        for connection in self._due.pop(tick):
            connection.resume()


class ClientThrottle:
    """The rejection rate of a pod, over both paths, and the timers of its paused connections."""

    def __init__(self, now: Callable[[], float], draw: Callable[[], float] = random.random) -> None:
        self._draw = draw
        """The source of jitter, uniform over 0 to 1."""
        self._count = 0
        """Rejections in the present window."""
        self._counted_at = float("-inf")
        self._rate = 0.0
        """Rejections a second, averaged over the last few windows."""
        self.timers = TimerWheel(_call_later, now)

    def record_rejection(self, now: float) -> None:
        """Count a rejection at `now`."""
        elapsed = now - self._counted_at
        if elapsed >= WINDOW_SECONDS:
            recent = self._count / elapsed
            weight = (1 - 1 / AVERAGED_WINDOWS) ** (elapsed / WINDOW_SECONDS)
            self._rate = recent + (self._rate - recent) * weight
            self._count, self._counted_at = 0, now
        self._count += 1

    def pause_seconds(self, timeout_seconds: float | None = None) -> float:
        """Return how long to pause a rejected connection, +- JITTER; 0 below UNTHROTTLED_RATE.

        The pause grows with the square of the rate: growth in proportion would still leave five times the rejections
        where there are many clients. `timeout_seconds` is the client's own limit for an answer: its next request keeps
        most of that. A pause that this limit shortens is spread over its last quarter at least, so that clients
        rejected together do not return together.
        """
        excess = self._rate / UNTHROTTLED_RATE
        if excess <= 1.0:
            return 0.0
        pause = min(MIN_PAUSE_SECONDS * excess**2, MAX_PAUSE_SECONDS)
        shortest, longest = (1 - JITTER) * pause, (1 + JITTER) * pause
        if timeout_seconds is not None:
            longest = min(longest, MAX_TIMEOUT_SHARE * timeout_seconds)
            shortest = min(shortest, (1 - JITTER) * longest)
        return shortest + (longest - shortest) * self._draw()

    def record_reply(self, request: web.Request, status: int, now: float) -> None:
        """Count a 429 of aiohttp's path, and pause its connection where the rate is too high."""
        if status != TOO_MANY_REQUESTS:
            return
        self.record_rejection(now)
        seconds = self.pause_seconds(_timeout_seconds(request.headers.get(HEADER_TIMEOUT, "")))
        transport = request.transport
        if seconds > 0.0 and transport is not None and not transport.is_closing():
            transport.pause_reading()
            self.timers.set(seconds, PausedConnection(request.protocol, transport))


class PausedConnection(Throttled):
    """A throttled connection on aiohttp's path."""

    def __init__(self, protocol: web.RequestHandler, transport: asyncio.Transport) -> None:
        self._protocol = protocol
        self._transport = transport

    @override
    def resume(self) -> None:
        """Read again, unless aiohttp itself has paused reading or the connection is gone."""
        protocol, transport = self._protocol, self._transport
        if protocol.transport is not transport or transport.is_closing():
            return
        if not (protocol._reading_paused or protocol._buffer_paused):
            transport.resume_reading()


def _timeout_seconds(text: str) -> float | None:
    milliseconds = parse_integer(text, MAX_MILLISECONDS)
    return None if milliseconds is None else milliseconds / 1000


def _call_later(seconds: float, call: Callable[..., object], *arguments: object) -> object:
    return asyncio.get_running_loop().call_later(seconds, call, *arguments)
