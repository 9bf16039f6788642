"""What every answer's wire form has in common."""

import secrets
import time
from typing import Any, Protocol

from penstock_runtime.protocols.openai.wire.options import GenerationOptions
from penstock_runtime.serving.generation.choice import Chunk
from penstock_runtime.serving.generation.request import GenerationCall
from penstock_runtime.serving.generation.response_stream import TokenUsage

Object = dict[str, Any]


class AnswerFormat(Protocol):
    """One call, and how what is said of it looks on the wire."""

    call: GenerationCall
    ends_with_done: bool
    """Whether its stream ends with `[DONE]`."""
    returns_prompts: bool
    """Whether its stream begins with the prompts, which may be long."""

    def chunks(self, pieces: list[Chunk], cost: TokenUsage, /) -> list[Object]:
        """Return the events of a stream that `pieces` make."""

    def closing(self, cost: TokenUsage, /) -> list[Object]:
        """Return the events that follow the last piece."""

    def take(self, pieces: list[Chunk]) -> None:
        """Keep `pieces` for the whole answer."""

    def whole(self, cost: TokenUsage, /) -> Object:
        """Return the answer of a request that is not streamed."""


class ResponseHead:
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


def usage(cost: TokenUsage) -> Object:
    """Return what a call cost, in OpenAI's words."""
    return {
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
        "total_tokens": cost.prompt_tokens + cost.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cost.cached_tokens},
    }


def usage_so_far(body: GenerationOptions, cost: TokenUsage) -> Object | None:
    """Return the usage that an event in the middle of a stream carries: none, unless asked for."""
    options = body.stream_options
    return usage(cost) if options is not None and options.continuous_usage_stats else None
