"""`AnswerFormat`: the interface of answer formats, and the fields that all of OpenAI's answers share."""

import secrets
import time
from typing import Any, Protocol

from penstock_runtime.protocols.openai.errors import error_body
from penstock_runtime.protocols.openai.wire.options import GenerationOptions
from penstock_runtime.serving.generation.choice import Chunk
from penstock_runtime.serving.generation.request import GenerationCall
from penstock_runtime.serving.generation.response_stream import TokenUsage

Object = dict[str, Any]


class AnswerFormat(Protocol):
    """A call, and the conversion of its chunks to the wire."""

    call: GenerationCall
    ends_with_done: bool
    """Whether its stream ends with `[DONE]`."""
    returns_prompts: bool
    """Whether its stream begins with the prompts, which may be long."""

    def chunks(self, pieces: list[Chunk], cost: TokenUsage, /) -> list[Object]:
        """Return the stream events for `pieces`."""

    def closing(self, cost: TokenUsage, /) -> list[Object]:
        """Return the stream events after the last piece."""

    def take(self, pieces: list[Chunk]) -> None:
        """Add `pieces` to the whole answer."""

    def whole(self, cost: TokenUsage, /) -> Object:
        """Return the whole answer of a request that is not streamed."""

    def error(self, status: int, message: str, field: str | None, reason: str) -> Object:
        """Return the body, or the stream event, of an error: OpenAI's object unless the protocol has another."""
        return error_body(status, message, param=field, reason=reason)


class ResponseHead:
    """The first fields of every object of one answer."""

    def __init__(self, prefix: str, kind: str, model: str) -> None:
        self._fields = {
            "id": f"{prefix}-{secrets.token_hex(12)}",
            "object": kind,
            "created": int(time.time()),
            "model": model,
        }

    def chunk(self, choices: list[Object], usage: Object | None, *, with_usage: bool) -> Object:
        """Return one stream event."""
        tail = {"usage": usage} if with_usage else {}
        return {**self._fields, "choices": choices, **tail}

    def whole(self, choices: list[Object], usage: Object) -> Object:
        """Return a whole answer."""
        return {**self._fields, "choices": choices, "usage": usage}


def usage(cost: TokenUsage) -> Object:
    """Return OpenAI's `usage` object of a call."""
    return {
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
        "total_tokens": cost.prompt_tokens + cost.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cost.cached_tokens},
    }


def usage_so_far(body: GenerationOptions, cost: TokenUsage) -> Object | None:
    """Return the `usage` of an event before the end of a stream: None, unless the body requests it."""
    options = body.stream_options
    return usage(cost) if options is not None and options.continuous_usage_stats else None
