"""Rest for connections whose clients ask too much: whoever refuses, counts here, and is told how long not to listen.

A client that asks again at once can make even refusing the pod's whole work, so above so many refusals a second a
refused connection is not read for a while (docs/design/runtime.md#overload): its next request waits in the socket, where it
costs nothing, and TCP tells the client to wait.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Protocol

from aiohttp import web

from penstock_runtime.protocols.common.headers import (
    HEADER_TIMEOUT,
    MAX_MILLISECONDS,
    parse_integer,
)

WINDOW_SECONDS: Final = 0.1
"""Over which refusals are counted."""
AVERAGED_WINDOWS: Final = 4
"""Over which the rate of refusals is averaged, whether or not any was told in them."""
UNTHROTTLED_RATE: Final = 250.0
"""Refusals a second that are told without rest: one percent of a core, and two where each interrupts a long batch."""
MIN_PAUSE_SECONDS: Final = 0.05
TICK_SECONDS: Final = 0.05
"""Rests end together, so that one round of the loop refuses many: each round takes the core from a batch."""
MAX_PAUSE_SECONDS: Final = 0.5
"""Within the patience of clients whose deadline is a second."""
JITTER: Final = 0.25
"""Of a rest, to both sides: who was refused together would come back together."""
MAX_TIMEOUT_SHARE: Final = 0.5
"""Of a client that says its deadline: what comes during a rest is old when it is read."""
TOO_MANY_REQUESTS: Final = 429
"""The status of refusals that count."""


class Throttled(Protocol):
    """Who is given rest."""

    def resume(self) -> None:
        """Be heard again."""


class TimerWheel:
    """Wakes many at little cost: those whose rest ends within one tick share a timer."""

    def __init__(self, call_later: Callable[..., object], now: Callable[[], float]) -> None:
        self._call_later = call_later
        self._now = now
        self._due: dict[int, list[Throttled]] = {}

    def set(self, seconds: float, one: Throttled) -> None:
        """Wake `one` in `seconds`, or up to a tick earlier, though not before the next one."""
        now = self._now()
        tick = max(int((now + seconds) / TICK_SECONDS), int(now / TICK_SECONDS) + 1)
        due = self._due.get(tick)
        if due is None:
            due = self._due[tick] = []
            self._call_later(tick * TICK_SECONDS - now, self._ring, tick)
        due.append(one)

    def _ring(self, tick: int) -> None:
        for one in self._due.pop(tick):
            one.resume()


class ClientThrottle:
    """Owns how many refusals were told lately, and who rests: of both lanes of a pod."""

    def __init__(self, now: Callable[[], float], draw: Callable[[], float] = random.random) -> None:
        self._draw = draw
        """Jitter, for who was refused together would come back together."""
        self._told = 0
        self._counted_at = float("-inf")
        self._rate = 0.0
        """Of refusals a second, over the last few stretches."""
        self.timers = TimerWheel(_call_later, now)

    def record_rejection(self, now: float) -> None:
        """Count a refusal that is told at `now`."""
        elapsed = now - self._counted_at
        if elapsed >= WINDOW_SECONDS:
            lately = self._told / elapsed
            kept = (1 - 1 / AVERAGED_WINDOWS) ** (elapsed / WINDOW_SECONDS)
            self._rate = lately + (self._rate - lately) * kept
            self._told, self._counted_at = 0, now
        self._told += 1

    def seconds(self, patience_seconds: float | None = None) -> float:
        """Return how long a connection that was refused is not to be read, +- SPREAD; 0 below UNTHROTTLED_RATE.

        It grows with the square of their rate: in proportion, many clients' refusals would still be five times as many.
        `patience_seconds` is what its client allows for an answer: its next request has most of it left. Who is held to
        that is spread over its last quarter at least, for who was refused together would come back together.
        """
        excess = self._rate / UNTHROTTLED_RATE
        if excess <= 1.0:
            return 0.0
        rest = min(MIN_PAUSE_SECONDS * excess**2, MAX_PAUSE_SECONDS)
        least, most = (1 - JITTER) * rest, (1 + JITTER) * rest
        if patience_seconds is not None:
            most = min(most, MAX_TIMEOUT_SHARE * patience_seconds)
            least = min(least, (1 - JITTER) * most)
        return least + (most - least) * self._draw()

    def record_reply(self, request: web.Request, status: int, now: float) -> None:
        """Count what aiohttp's lane answers; a connection that asks too much is not read for a while."""
        if status != TOO_MANY_REQUESTS:
            return
        self.record_rejection(now)
        seconds = self.seconds(_patience(request.headers.get(HEADER_TIMEOUT, "")))
        transport = request.transport
        if seconds > 0.0 and transport is not None and not transport.is_closing():
            transport.pause_reading()
            self.timers.set(seconds, PausedConnection(request.protocol, transport))


class PausedConnection:
    """A connection of aiohttp's that rests."""

    def __init__(self, protocol: web.RequestHandler, transport: asyncio.Transport) -> None:
        self._protocol = protocol
        self._transport = transport

    def resume(self) -> None:
        """As `Throttled.resume`, unless aiohttp has reasons of its own not to read."""
        protocol, transport = self._protocol, self._transport
        if protocol.transport is not transport or transport.is_closing():
            return
        if not (protocol._reading_paused or protocol._buffer_paused):
            transport.resume_reading()


def _patience(text: str) -> float | None:
    milliseconds = parse_integer(text, MAX_MILLISECONDS)
    return None if milliseconds is None else milliseconds / 1000


def _call_later(seconds: float, call: Callable[..., object], *arguments: object) -> object:
    return asyncio.get_running_loop().call_later(seconds, call, *arguments)
