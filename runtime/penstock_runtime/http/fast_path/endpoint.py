"""The contract of a fast route: how its bodies are read, and how ends and refusals are worded."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec import Struct

from penstock_runtime.errors import RequestRejected
from penstock_runtime.http.fast_path.request_head import RequestHead
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.protocols.open_inference.infer_response import InferBody
from penstock_runtime.request import Completed, End, Request
from penstock_runtime.serving.admission import Hold
from penstock_runtime.serving.ticket import Ticket


class DeferredCall(Struct, frozen=True):
    """A call that is known later: its texts are tokenised off the loop first."""

    call: Callable[[Hold, float | None], Coroutine[Any, Any, Any]]
    """Takes what to tell of its memory, and the seconds that its head allows."""


class FastEndpoint(Protocol):
    """One route. A call, which has `rows`, `wanted` and (unless it comes later) `bytes`, is understood by the way alone.

    Its `wanted` is what is left of it when the engine has its tensors.
    """

    def read(self, body: bytes, head: RequestHead) -> Any:
        """Return the call that a body spells, or `DeferredCall`; raise Refusal, as what is awaited may."""

    def to_request(self, ticket: Ticket, call: Any, head: RequestHead) -> Request:
        """Return what the engine is to serve."""

    def served(self, wanted: Any, end: Completed) -> InferBody:
        """Return the answer of a call that was served."""

    def reply_to(self, wanted: Any, end: End, request_id: str) -> Reply:
        """Return the answer that tells how a call ended otherwise."""

    def of_refusal(self, refusal: RequestRejected) -> Reply:
        """Return a refusal's answer."""
