"""What every answer's wire form has in common."""

import secrets
import time
from typing import Any, Protocol

from penstock_runtime.protocols.openai.wire.options import Options
from penstock_runtime.serving.generation.choice import Piece
from penstock_runtime.serving.generation.request import Call
from penstock_runtime.serving.generation.response_stream import Cost

Object = dict[str, Any]


class Answer(Protocol):
    """One call, and how what is said of it looks on the wire."""

    call: Call
    ends_with_done: bool
    """Whether its stream ends with `[DONE]`."""
    returns_prompts: bool
    """Whether its stream begins with the prompts, which may be long."""

    def chunks(self, pieces: list[Piece], cost: Cost, /) -> list[Object]:
        """Return the events of a stream that `pieces` make."""

    def closing(self, cost: Cost, /) -> list[Object]:
        """Return the events that follow the last piece."""

    def take(self, pieces: list[Piece]) -> None:
        """Keep `pieces` for the whole answer."""

    def whole(self, cost: Cost, /) -> Object:
        """Return the answer of a request that is not streamed."""


class Head:
    """The fields that begin every object of one answer."""

    def __init__(self, prefix: str, kind: str, model: str) -> None:
        self._fields = {
            "id": f"{prefix}-{secrets.token_hex(12)}",
            "object": kind,
            "created": int(time.time()),
            "model": model,
        }

    def chunk(self, choices: list[Object], usage: Object | None, *, with_usage: bool) -> Object:
        """Return one event of a stream."""
        tail = {"usage": usage} if with_usage else {}
        return {**self._fields, "choices": choices, **tail}

    def whole(self, choices: list[Object], usage: Object) -> Object:
        """Return a whole answer."""
        return {**self._fields, "choices": choices, "usage": usage}


def usage(cost: Cost) -> Object:
    """Return what a call cost, in OpenAI's words."""
    return {
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
        "total_tokens": cost.prompt_tokens + cost.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cost.cached_tokens},
    }


def usage_so_far(body: Options, cost: Cost) -> Object | None:
    """Return the usage that an event in the middle of a stream carries: none, unless asked for."""
    options = body.stream_options
    return usage(cost) if options is not None and options.continuous_usage_stats else None
