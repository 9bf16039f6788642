"""The contract of a fast route: how its bodies are read, and how ends and refusals are worded."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec import Struct

from penstock_runtime.errors import Refusal
from penstock_runtime.http.fast_path.request_head import Head
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.protocols.open_inference.infer_response import Answer
from penstock_runtime.request import Completed, End, Request
from penstock_runtime.serving.admission import Hold
from penstock_runtime.serving.ticket import Ticket


class Later(Struct, frozen=True):
    """A call that is known later: its texts are tokenised off the loop first."""

    call: Callable[[Hold, float | None], Coroutine[Any, Any, Any]]
    """Takes what to tell of its memory, and the seconds that its head allows."""


class Way(Protocol):
    """One route. A call, which has `rows`, `wanted` and (unless it comes later) `bytes`, is understood by the way alone.

    Its `wanted` is what is left of it when the engine has its tensors.
    """

    def read(self, body: bytes, head: Head) -> Any:
        """Return the call that a body spells, or `Later`; raise Refusal, as what is awaited may."""

    def to_request(self, ticket: Ticket, call: Any, head: Head) -> Request:
        """Return what the engine is to serve."""

    def served(self, wanted: Any, end: Completed) -> Answer:
        """Return the answer of a call that was served."""

    def reply_to(self, wanted: Any, end: End, request_id: str) -> Reply:
        """Return the answer that tells how a call ended otherwise."""

    def of_refusal(self, refusal: Refusal) -> Reply:
        """Return a refusal's answer."""
