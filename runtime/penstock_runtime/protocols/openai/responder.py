"""Writer of the answer to one call, whole or as a stream; every answer ends visibly."""

import asyncio
import logging
from functools import partial
from typing import Any, Final

from aiohttp import web

from penstock_runtime.protocols.common.access_log import CLIENT_GONE
from penstock_runtime.protocols.common.long_answers import json_of, to_thread_if_long
from penstock_runtime.protocols.common.replies import REQUEST_ID, Reply, failure, response_of
from penstock_runtime.protocols.common.request_context import LAST, LOGGED
from penstock_runtime.protocols.openai.response import AnswerFormat, Object
from penstock_runtime.protocols.openai.sse import EventStream, written
from penstock_runtime.request import (
    Cancelled,
    Expired,
    Failed,
    GrammarUnenforceable,
    RequestOutcome,
)
from penstock_runtime.serving.generation.choice import Chunk
from penstock_runtime.serving.generation.response_stream import (
    GenerationError,
    ResponseStream,
    TokenUsage,
)
from penstock_runtime.serving.pod import Pod

log = logging.getLogger(__name__)

PING_SECONDS: Final = 10.0
"""Silence after which a stream sends a comment, for example during preemption or reasoning that is left out."""
LONG_TOKENS: Final = 512
"""The length above which an answer is rendered in a thread: with 21 log-probabilities per token, it takes 10 ms."""
TOKEN_BYTES: Final = 40
"""Memory of one token of an answer that is sent whole: its id and its text."""
LOGPROB_BYTES: Final = 320
"""Memory of one log-probability of such an answer, with its share of the JSON; measured: 306 in a chat."""
HEADER_QUEUE_SECONDS: Final = "X-Penstock-Queue-Seconds"


async def reply_whole(answer: AnswerFormat, answering: ResponseStream) -> web.StreamResponse:
    """Return the whole answer once it is complete.

    Raises:
        MemoryFull, TooLarge: as `MemoryBudget.grow`.
    """
    try:
        while not answering.done:
            pieces = await answering.next(PING_SECONDS)
            answering.hold(sum(map(_held_bytes, pieces)))
            answer.take(pieces)
    except GenerationError as bad:
        return response_of(_error(answer, bad))
    headers = {HEADER_QUEUE_SECONDS: f"{answering.cost.queue_seconds:.6f}"}
    cost = answering.cost
    long = cost.prompt_tokens + cost.completion_tokens > LONG_TOKENS
    body = await to_thread_if_long(lambda: json_of(answer.whole(cost)), long=long)
    return response_of(Reply(200, body, headers=tuple(headers.items())))


async def reply_stream(
    request: web.Request, answer: AnswerFormat, answering: ResponseStream, pod: Pod
) -> web.StreamResponse:
    """Stream the answer; a failure before the first token is still answered by a status.

    Raises:
        CancelledError: the client has left, as aiohttp or a write noticed.
    """
    closes = request.get(LAST, False) or pod.health.closing
    stream = EventStream(request, pod.config.pod.name, closes=closes)
    try:
        return await _reply(answer, answering, stream)
    except ConnectionError as error:
        raise asyncio.CancelledError(str(error)) from error


async def _reply(
    answer: AnswerFormat, answering: ResponseStream, stream: EventStream
) -> web.StreamResponse:
    long_prompts = answer.returns_prompts and answering.cost.prompt_tokens > LONG_TOKENS
    try:
        while not answering.done:
            pieces = await answering.next(max(0.0, PING_SECONDS - stream.silent_seconds))
            if pieces:
                events = partial(_events, answer, pieces, answering.cost)
                await stream.send(await to_thread_if_long(events, long=long_prompts))
            # some pieces give no event, such as reasoning that is left out
            if stream.silent_seconds >= PING_SECONDS and not answering.done:
                await stream.ping()
        await stream.send(written(answer.closing(answering.cost)))
    except GenerationError as bad:
        if not stream.begun:
            return response_of(_error(answer, bad))
        await stream.send(written([_error_body(answer, bad)]))
    await stream.finish(done=answer.ends_with_done)
    return stream.response


def _held_bytes(piece: Chunk) -> int:
    logprobs = sum(1 + len(logprob.top) for logprob in piece.logprobs)
    if piece.scored is not None:
        logprobs += piece.scored.chosen.size + piece.scored.values.size
    return TOKEN_BYTES * len(piece.tokens) + LOGPROB_BYTES * logprobs


def _events(answer: AnswerFormat, pieces: list[Chunk], cost: TokenUsage) -> bytes:
    return written(answer.chunks(pieces, cost))


def _error(answer: AnswerFormat, bad: GenerationError) -> Reply:
    status, _, retry_after_seconds = error_terms(bad)
    return failure(status, _error_body(answer, bad), retry_after_seconds)


def _error_body(answer: AnswerFormat, bad: GenerationError) -> Object:
    status, message, _ = error_terms(bad)
    return answer.error(status, message, bad.field, type(bad.end).__name__)


def error_terms(bad: GenerationError) -> tuple[int, str, float | None]:
    """Return the status, message and retry delay in seconds for an answer that ended without success."""
    match bad.end:
        case GrammarUnenforceable(reason=reason):
            return 400, f"`{bad.field}` cannot be enforced: {reason}", None
        case Failed(reason=reason, retry_after_seconds=None):
            return 500, reason, None
        case Failed(reason=reason, retry_after_seconds=seconds):
            return 503, reason, seconds
        case Expired(waited_seconds=seconds):
            return 504, f"the deadline passed after {seconds:.3f} s: allow more time", None
        case Cancelled():
            return CLIENT_GONE, "the request was cancelled: its client read too slowly", None


def record_end(request: web.Request, answering: ResponseStream) -> None:
    """Store the known facts of an ended answer for the access log."""
    cost, first, outcome = answering.cost, answering.first_seconds, answering.outcome
    fields: dict[str, Any] = {
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
    }
    if first is not None:
        fields["first_token_seconds"] = round(first, 6)
    if outcome is not None:
        fields["outcome"] = outcome
    if outcome is RequestOutcome.COMPLETED:  # the engine reports these at the end
        fields["queue_seconds"] = round(cost.queue_seconds, 6)
        fields["cached_tokens"] = cost.cached_tokens
    request[LOGGED] = fields
    if outcome is RequestOutcome.FAILED:
        log.warning("answer failed", extra={"request_id": request.get(REQUEST_ID)})
