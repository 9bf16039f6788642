"""Conversion of an embedding call to a request, and of the request's end to its answer, for both paths."""

import base64
from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
import orjson
from msgspec import Struct

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_runtime.engine.model import ModelInfo, group_of
from penstock_runtime.errors import BadInput, BrokenJson, NotServing
from penstock_runtime.protocols.common.json_structure import PLAIN, SMALL_BYTES, structure_of
from penstock_runtime.protocols.common.long_answers import PIECE_NUMBERS, Body, joined
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.protocols.open_inference.completion import HEADER_QUEUE_SECONDS
from penstock_runtime.protocols.openai.embeddings.request import EmbeddingCall, parse
from penstock_runtime.protocols.openai.errors import error_reply
from penstock_runtime.request import (
    Cancelled,
    Completed,
    End,
    Expired,
    Failed,
    Group,
    Request,
    Tensor,
)
from penstock_runtime.serving.admission.memory_budget import Hold
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.pod import Pod
from penstock_runtime.serving.tokenizer_pool import (
    Ids,
    TokenizerPool,
    held_rows_of,
    nearest,
    texts_bytes,
)


class EmbeddingOptions(Struct, frozen=True):
    """Options of a call that set the form of its answer; kept once the engine has its tokens."""

    tokens: int
    """The number of tokens of all rows."""
    base64: bool


class EmbeddingInput(Struct, frozen=True):
    """A call with its tokens, and without its texts."""

    inputs: dict[str, Tensor]
    rows: int
    group: Group
    options: EmbeddingOptions
    priority: int
    timeout_seconds: float | None


def read(body: bytes | bytearray, pod: Pod) -> EmbeddingCall:
    """Return the call in `body`.

    Raises:
        BadInput: a field is invalid.
        UnknownModel: it names another model.
        NotServing: the model is being loaded.
    """
    model, _ = _serving(pod)
    if len(body) > SMALL_BYTES:
        structure_of(body, PLAIN).check(PLAIN, [])
    return parse(_json(body), pod.config.model_name, model.outputs[0].shape[1])


async def tokenized(
    call: EmbeddingCall, pod: Pod, hold: Hold, header_seconds: float | None
) -> EmbeddingInput:
    """Return `call` with its tokens; texts are tokenized off the event loop.

    `hold` counts the memory of the texts, then of the rows.

    Raises:
        BadInput: the input does not fit the model.
        NotServing: the model is being loaded.
        MemoryFull: the memory for requests is full, as `hold` finds.
        TooLate: the nearer of the call's and the header's deadlines passed meanwhile.
    """
    model, texts = _serving(pod)
    ids = await _ids(call, texts, hold, header_seconds)
    if len(ids) > MAX_BATCH_SIZE:
        raise BadInput(
            f"`input` has {len(ids)} entries: send at most {MAX_BATCH_SIZE}", field="input"
        )
    inputs = await held_rows_of(ids, "input", hold)
    return EmbeddingInput(
        inputs,
        len(ids),
        group_of(model, inputs),
        EmbeddingOptions(sum(map(len, ids)), call.base64),
        call.priority,
        call.timeout_seconds,
    )


def _serving(pod: Pod) -> tuple[ModelInfo, TokenizerPool]:
    if pod.model is None or pod.texts is None:
        raise NotServing("Loading", "the model is loading: retry shortly")
    return pod.model, pod.texts


async def _ids(
    call: EmbeddingCall, texts: TokenizerPool, hold: Hold, header_seconds: float | None
) -> Sequence[Ids]:
    if call.texts:
        hold(texts_bytes(call.texts))
        within = nearest(call.timeout_seconds, header_seconds)
        return await texts.encode(call.texts, "input", hold, cut=call.cut, within_seconds=within)
    ids = [row[: texts.max_tokens] for row in call.ids] if call.cut else call.ids
    texts.check(ids, "input")
    return ids


def to_request(ticket: Ticket, call: EmbeddingInput, header_seconds: float | None) -> Request:
    """Return the request for the engine, with the nearer of the call's and the header's deadlines."""
    seconds = nearest(call.timeout_seconds, header_seconds)
    return Request(
        id=ticket.id,
        inputs=call.inputs,
        rows=call.rows,
        group=call.group,
        arrived=ticket.arrived,
        deadline=ticket.deadline(seconds),
        priority=call.priority,
    )


def reply_to(end: End, options: EmbeddingOptions, model: str) -> Reply:
    """Return the answer to a call of `model` that has ended."""
    match end:
        case Completed():
            waited = (HEADER_QUEUE_SECONDS, f"{end.queue_seconds:.6f}")
            return Reply(200, rendered(end, options, model), headers=(waited,))
        case Failed():
            status = 500 if end.retry_after_seconds is None else 503
            return error_reply(
                status, end.reason, reason="Failed", retry_after_seconds=end.retry_after_seconds
            )
        case Expired():
            return error_reply(
                504,
                f"the deadline passed after {end.waited_seconds:.3f} s of waiting: allow more time",
                param="timeout",
                reason="Expired",
            )
        case Cancelled():
            return error_reply(499, "the request was cancelled", reason="Cancelled")
        case _:
            assert_never(end)


def rendered(end: Completed, options: EmbeddingOptions, model: str) -> Body:
    """Return the body of an answer; base64 contains little-endian float32, as OpenAI's client expects."""
    (vectors,) = end.outputs.values()
    rows = np.ascontiguousarray(vectors, np.dtype("<f4"))
    usage = {"prompt_tokens": options.tokens, "total_tokens": options.tokens}
    tail = orjson.dumps({"model": model, "usage": usage})
    parts = [b'{"object":"list","data":[']
    step = max(1, PIECE_NUMBERS // rows.shape[1])
    for start in range(0, len(rows), step):
        parts += (_embeddings(rows[start : start + step], start, options), b",")
    parts[-1] = b"]," + tail[1:]
    return joined(parts)


def _embeddings(rows: Tensor, start: int, options: EmbeddingOptions) -> bytes:
    """Return some rows of an answer, from index `start` on, without the brackets of their list."""
    listed: list[Any] = list(rows)
    if options.base64:
        listed = [base64.b64encode(row.tobytes()).decode() for row in listed]
    data = [
        {"object": "embedding", "index": start + index, "embedding": row}
        for index, row in enumerate(listed)
    ]
    return orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]


def _json(body: bytes | bytearray) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BrokenJson(f"the body is not valid JSON: {error}", field="body") from error
