"""The contract of an endpoint of the fast path: how it reads bodies and renders ends and rejections."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec import Struct

from penstock_runtime.errors import RequestRejected
from penstock_runtime.http.fast_path.request_head import RequestHead
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.protocols.open_inference.infer_response import InferBody
from penstock_runtime.request import Completed, End, Request
from penstock_runtime.serving.admission.memory_budget import Hold
from penstock_runtime.serving.admission.ticket import Ticket


class DeferredCall(Struct, frozen=True):
    """A call that is complete later: its texts are tokenized off the event loop first."""

    call: Callable[[Hold, float | None], Coroutine[Any, Any, Any]]
    """Returns the call, from the function that counts its memory and the seconds that the request's head allows."""


class FastEndpoint(Protocol):
    """One route. Only the endpoint interprets a call, which has `rows`, `options` and, unless deferred, `bytes`.

    `options` is what remains of a call once the engine has its tensors.
    """

    def read(self, body: bytes, head: RequestHead) -> Any:
        """Return the call in a body, or `DeferredCall`. This, and awaiting the latter, may raise RequestRejected."""

    def to_request(self, ticket: Ticket, call: Any, head: RequestHead) -> Request:
        """Return the request for the engine."""

    def served(self, options: Any, end: Completed) -> InferBody:
        """Return the answer to a completed call."""

    def reply_to(self, options: Any, end: End, request_id: str) -> Reply:
        """Return the answer to a call that ended in any other way."""

    def of_rejection(self, rejection: RequestRejected) -> Reply:
        """Return the answer to a rejected request."""
