"""Refusing fast: what is told when the queue is full, written ahead, and rest for connections that ask too much.

Two stages (RUNTIME.md, Overload). A refusal is one answer that was written before, so that it costs a tenth
of serving; the request's body is not looked at. But a client that asks again at once can make even that the
pod's whole work, so above so many refusals a second a refused connection is not read for a while: its next
request waits in the socket, where it costs nothing, and TCP tells the client to wait.
"""

from typing import Final

from penstock_runtime.admission import Admission
from penstock_runtime.errors import QueueFull
from penstock_runtime.protocols.fast_lane.wire import Wire
from penstock_runtime.protocols.replies import of_refusal

REFRESH_SECONDS: Final = 0.1
"""How long a written refusal is told: its `Retry-After` is in whole seconds."""
FREE_REFUSALS: Final = 2000.0
"""Refusals a second that are told without rest: a few percent of one core."""
LEAST_REST_SECONDS: Final = 0.02
MOST_REST_SECONDS: Final = 0.5
"""Within the patience of clients whose deadline is a second."""


class Refusals:
    """Owns the refusal as last written, and how many were told lately."""

    def __init__(self, admission: Admission, wire: Wire) -> None:
        self._admission = admission
        self._wire = wire
        self._refusal: QueueFull | None = None
        self._parts = (b"", b"")
        self._written_at = float("-inf")
        self._told = 0
        self._rate = 0.0
        """Of refusals a second, in the last whole stretch of REFRESH_SECONDS."""

    def refusal(self, now: float) -> QueueFull:
        """Return the refusal of now."""
        if self._refusal is None or now - self._written_at >= REFRESH_SECONDS:
            self._rate = self._told / max(REFRESH_SECONDS, now - self._written_at)
            self._told, self._written_at = 0, now
            self._refusal = self._admission.queue_full()
            self._parts = self._wire.around_id(of_refusal(self._refusal))
        self._told += 1
        return self._refusal

    def answer(self, request_id: str) -> bytes:
        """Return the last refusal as bytes, for a connection that goes on."""
        before, after = self._parts
        return b"%b%b%b" % (before, request_id.encode(), after)

    def rest_seconds(self) -> float:
        """Return how long a connection that was refused is not to be read; 0 below FREE_REFUSALS."""
        excess = self._rate / FREE_REFUSALS
        if excess <= 1.0:
            return 0.0
        return min(LEAST_REST_SECONDS * excess, MOST_REST_SECONDS)
