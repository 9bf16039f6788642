"""Pre-rendered 429 responses for a full queue or an unmeetable deadline.

The first of two stages of overload protection (docs/design/runtime.md#overload): a rejection that is rendered ahead costs a
tenth of serving, and the request's body is not read. The second stage is the throttle of `http/client_throttle.py`.
"""

from typing import Final, Protocol

from penstock_runtime.errors import DeadlineTooNear, QueueFull, RequestRejected
from penstock_runtime.http.fast_path.response import ResponseWriter
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.serving.batch.admission import BatchAdmission

REFRESH_SECONDS: Final = 0.1
"""The life of a rendered rejection: its `Retry-After` is in whole seconds."""


class RejectionFormat(Protocol):
    """A protocol's form of rejections."""

    def of_rejection(self, rejection: RequestRejected) -> Reply:
        """Return the answer to a rejected request."""


class CannedRejections:
    """The rejections as last rendered."""

    def __init__(self, admission: BatchAdmission, wire: ResponseWriter) -> None:
        self._admission = admission
        self._wire = wire
        self._full: QueueFull | None = None
        self._late: dict[float, DeadlineTooNear] = {}
        """Rejections by the client's timeout in seconds."""
        self._parts: dict[tuple[RejectionFormat, RequestRejected], tuple[bytes, bytes]] = {}
        """The bytes before and after the request id, by protocol and rejection."""
        self._rendered_at = float("-inf")

    def full(self, now: float) -> QueueFull:
        """Return the present rejection of a full queue."""
        self._refresh(now)
        if self._full is None:
            self._full = self._admission.slots.queue_full()
        return self._full

    def late(
        self, rejection: DeadlineTooNear, timeout_seconds: float, now: float
    ) -> DeadlineTooNear:
        """Return the present rejection for a timeout: the first one since the last refresh, else `rejection`."""
        self._refresh(now)
        return self._late.setdefault(timeout_seconds, rejection)

    def answer(self, rejection: RequestRejected, request_id: str, form: RejectionFormat) -> bytes:
        """Return a present rejection as bytes, for a connection that stays open."""
        parts = self._parts.get((form, rejection))
        if parts is None:
            parts = self._wire.around_id(form.of_rejection(rejection))
            self._parts[form, rejection] = parts
        before, after = parts
        return b"%b%b%b" % (before, request_id.encode(), after)

    def _refresh(self, now: float) -> None:
        if now - self._rendered_at >= REFRESH_SECONDS:
            self._rendered_at, self._full = now, None
            self._late.clear()
            self._parts.clear()
