"""Refusing fast: what is told when the queue is full, or the deadline too near, is written ahead.

The first of two stages (docs/design/runtime.md#overload). A refusal is one answer that was written before, so that it costs a
tenth of serving; the request's body is not read. The second stage is rest: `http/backpressure.py`.
"""

from typing import Final, Protocol

from penstock_runtime.errors import DeadlineTooNear, QueueFull, RequestRejected
from penstock_runtime.http.fast_path.response import ResponseWriter
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.serving.admission import Admission

REFRESH_SECONDS: Final = 0.1
"""How long a written refusal is told: its `Retry-After` is in whole seconds."""


class Wording(Protocol):
    """A protocol's words."""

    def of_refusal(self, refusal: RequestRejected) -> Reply:
        """Return a refusal's answer."""


class CannedRejections:
    """Owns the refusals as last written."""

    def __init__(self, admission: Admission, wire: ResponseWriter) -> None:
        self._admission = admission
        self._wire = wire
        self._full: QueueFull | None = None
        self._late: dict[float, DeadlineTooNear] = {}
        """By what the client allows for an answer, in seconds."""
        self._parts: dict[tuple[Wording, RequestRejected], tuple[bytes, bytes]] = {}
        """Of a refusal, before and behind the request id, in each protocol's words."""
        self._written_at = float("-inf")

    def full(self, now: float) -> QueueFull:
        """Return the refusal of now that the queue is full."""
        self._refresh(now)
        if self._full is None:
            self._full = self._admission.queue_full()
        return self._full

    def late(self, found: DeadlineTooNear, timeout_seconds: float, now: float) -> DeadlineTooNear:
        """Return the refusal of now of a deadline that cannot be met, worded for the first of its patience."""
        self._refresh(now)
        return self._late.setdefault(timeout_seconds, found)

    def answer(self, refusal: RequestRejected, request_id: str, wording: Wording) -> bytes:
        """Return a refusal of now as bytes, for a connection that goes on."""
        parts = self._parts.get((wording, refusal))
        if parts is None:
            parts = self._wire.around_id(wording.of_refusal(refusal))
            self._parts[wording, refusal] = parts
        before, after = parts
        return b"%b%b%b" % (before, request_id.encode(), after)

    def _refresh(self, now: float) -> None:
        if now - self._written_at >= REFRESH_SECONDS:
            self._written_at, self._full = now, None
            self._late.clear()
            self._parts.clear()
