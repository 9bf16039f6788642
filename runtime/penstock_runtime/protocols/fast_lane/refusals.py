"""Refusing fast: what is told when the queue is full, written ahead, and rest for connections that ask too much.

Two stages (RUNTIME.md, Overload). A refusal is one answer that was written before, so that it costs a tenth
of serving; the request's body is not looked at. But a client that asks again at once can make even that the
pod's whole work, so above so many refusals a second a refused connection is not read for a while: its next
request waits in the socket, where it costs nothing, and TCP tells the client to wait.
"""

import random
from collections.abc import Callable
from typing import Final, Protocol

from penstock_runtime.admission import Admission
from penstock_runtime.errors import QueueFull, Refusal
from penstock_runtime.protocols.fast_lane.wire import Wire
from penstock_runtime.protocols.replies import Reply

REFRESH_SECONDS: Final = 0.1
"""How long a written refusal is told: its `Retry-After` is in whole seconds."""
FREE_REFUSALS: Final = 1000.0
"""Refusals a second that are told without rest: two percent of one core."""
LEAST_REST_SECONDS: Final = 0.05
TICK_SECONDS: Final = 0.005
REMEMBERED_STRETCHES: Final = 4
"""Over which the rate of refusals is averaged: a rest shows in the rate only when it ends."""
MOST_REST_SECONDS: Final = 0.5
"""Within the patience of clients whose deadline is a second."""
MOST_OF_PATIENCE: Final = 0.4
"""Of a client that says its deadline: what comes during a rest is old when it is read."""


class Resting(Protocol):
    """Who is given rest."""

    def rest_over(self) -> None:
        """Be heard again."""


class Wording(Protocol):
    """A protocol's words."""

    def of_refusal(self, refusal: Refusal) -> Reply:
        """Return a refusal's answer."""


class Alarm:
    """Wakes many at little cost: those whose rest ends within one tick share a timer."""

    def __init__(self, call_later: Callable[..., object], now: Callable[[], float]) -> None:
        self._call_later = call_later
        self._now = now
        self._due: dict[int, list[Resting]] = {}

    def set(self, seconds: float, one: Resting) -> None:
        """Wake `one` in `seconds`, or up to a tick later."""
        now = self._now()
        tick = int((now + seconds) / TICK_SECONDS) + 1
        due = self._due.get(tick)
        if due is None:
            due = self._due[tick] = []
            self._call_later(tick * TICK_SECONDS - now, self._ring, tick)
        due.append(one)

    def _ring(self, tick: int) -> None:
        for one in self._due.pop(tick):
            one.rest_over()


class Refusals:
    """Owns the refusal as last written, and how many were told lately."""

    def __init__(
        self, admission: Admission, wire: Wire, draw: Callable[[], float] = random.random
    ) -> None:
        self._draw = draw
        """Jitter, for who was refused together would come back together."""
        self._admission = admission
        self._wire = wire
        self._refusal: QueueFull | None = None
        self._parts: dict[Wording, tuple[bytes, bytes]] = {}
        """Of the refusal, before and behind the request id, in each protocol's words."""
        self._written_at = float("-inf")
        self._told = 0
        self._rate = 0.0
        """Of refusals a second, over the last few stretches of REFRESH_SECONDS."""

    def refusal(self, now: float) -> QueueFull:
        """Return the refusal of now."""
        if self._refusal is None or now - self._written_at >= REFRESH_SECONDS:
            lately = self._told / max(REFRESH_SECONDS, now - self._written_at)
            self._rate += (lately - self._rate) / REMEMBERED_STRETCHES
            self._told, self._written_at = 0, now
            self._refusal = self._admission.queue_full()
            self._parts.clear()
        self._told += 1
        return self._refusal

    def answer(self, refusal: QueueFull, request_id: str, wording: Wording) -> bytes:
        """Return the refusal of now as bytes, for a connection that goes on."""
        parts = self._parts.get(wording)
        if parts is None:
            parts = self._parts[wording] = self._wire.around_id(wording.of_refusal(refusal))
        before, after = parts
        return b"%b%b%b" % (before, request_id.encode(), after)

    def rest_seconds(self, patience_seconds: float | None = None) -> float:
        """Return how long a connection that was refused is not to be read, +- half; 0 below FREE_REFUSALS.

        It grows with the square of their rate: in proportion, many clients' refusals would still be five times as many.
        `patience_seconds` is what its client allows for an answer: its next request has most of it left.
        """
        excess = self._rate / FREE_REFUSALS
        if excess <= 1.0:
            return 0.0
        rest = min(LEAST_REST_SECONDS * excess**2, MOST_REST_SECONDS)
        if patience_seconds is not None:
            rest = min(rest, MOST_OF_PATIENCE * patience_seconds)
        return rest * (0.5 + self._draw())
