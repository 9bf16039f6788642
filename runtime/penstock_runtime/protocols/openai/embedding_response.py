"""From an embedding call to a request, and from the request's end to its answer: the same in both lanes."""

import base64
from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
import orjson
from msgspec import Struct

from penstock_api.limits import MAX_BATCH_SIZE
from penstock_runtime.engine.model import ModelInfo, group_of
from penstock_runtime.errors import BadInput, BrokenJson, NotServing
from penstock_runtime.protocols.common.json_structure import PLAIN, SMALL_BYTES, structure_of
from penstock_runtime.protocols.common.long_answers import PIECE_NUMBERS, Body, joined
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.protocols.open_inference.completion import HEADER_QUEUE_SECONDS
from penstock_runtime.protocols.openai.embedding_request import EmbeddingCall, parse
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
from penstock_runtime.serving.admission import Hold
from penstock_runtime.serving.pod import Pod
from penstock_runtime.serving.ticket import Ticket
from penstock_runtime.serving.tokenizer_pool import (
    Ids,
    TokenizerPool,
    nearest,
    rows_bytes,
    rows_of,
    texts_bytes,
)


class EmbeddingOptions(Struct, frozen=True):
    """What an answer tells beside the vectors, and how: all that is kept of a call once the engine has its tokens."""

    tokens: int
    """Of all rows."""
    base64: bool


class EmbeddingInput(Struct, frozen=True):
    """A call with its tokens; nothing is kept of its texts."""

    inputs: dict[str, Tensor]
    rows: int
    group: Group
    wanted: EmbeddingOptions
    priority: int
    timeout_seconds: float | None


def read(body: bytes | bytearray, pod: Pod) -> EmbeddingCall:
    """Return what `body` asks for.

    Raises:
        BadInput: with the field.
        UnknownModel: it asks for another model.
        NotServing: there is no model yet.
    """
    model, _ = _serving(pod)
    if len(body) > SMALL_BYTES:
        structure_of(body, PLAIN).check(PLAIN, [])
    return parse(_json(body), pod.config.model_name, model.outputs[0].shape[1])


async def tokenised(
    call: EmbeddingCall, pod: Pod, hold: Hold, header_seconds: float | None
) -> EmbeddingInput:
    """Return `call` with its tokens; texts are tokenised off the event loop.

    `hold` is told what the texts take, then what the rows do.

    Raises:
        BadInput: with the field.
        NotServing: there is no model yet.
        MemoryFull: as `hold`.
        TooLate: the nearer of the call's and the header's deadlines passed meanwhile.
    """
    model, texts = _serving(pod)
    ids = await _ids(call, texts, hold, header_seconds)
    if len(ids) > MAX_BATCH_SIZE:
        raise BadInput(
            f"`input` has {len(ids)} entries: send at most {MAX_BATCH_SIZE}", field="input"
        )
    hold(rows_bytes(ids))
    inputs = rows_of(ids)
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
        raise NotServing("Loading", "the model is being loaded: try again soon")
    return pod.model, pod.texts


async def _ids(
    call: EmbeddingCall, texts: TokenizerPool, hold: Hold, header_seconds: float | None
) -> Sequence[Ids]:
    if call.texts:
        hold(texts_bytes(call.texts))
        within = nearest(call.timeout_seconds, header_seconds)
        return await texts.encode(call.texts, "input", cut=call.cut, within_seconds=within)
    ids = [one[: texts.max_tokens] for one in call.ids] if call.cut else call.ids
    texts.check(ids, "input")
    return ids


def to_request(ticket: Ticket, asked: EmbeddingInput, header_seconds: float | None) -> Request:
    """Return what the engine is to serve; the nearer of the call's and the header's deadlines holds."""
    seconds = nearest(asked.timeout_seconds, header_seconds)
    return Request(
        id=ticket.id,
        inputs=asked.inputs,
        rows=asked.rows,
        group=asked.group,
        arrived=ticket.arrived,
        deadline=ticket.deadline(seconds),
        priority=asked.priority,
    )


def reply_to(end: End, wanted: EmbeddingOptions, model: str) -> Reply:
    """Return the answer that tells a client how its call of `model` ended."""
    match end:
        case Completed():
            waited = (HEADER_QUEUE_SECONDS, f"{end.queue_seconds:.6f}")
            return Reply(200, rendered(end, wanted, model), headers=(waited,))
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


def rendered(end: Completed, wanted: EmbeddingOptions, model: str) -> Body:
    """Return the answer's body; base64 is of little-endian float32, as OpenAI's client reads it."""
    (vectors,) = end.outputs.values()
    rows = np.ascontiguousarray(vectors, np.dtype("<f4"))
    usage = {"prompt_tokens": wanted.tokens, "total_tokens": wanted.tokens}
    end_of_it = orjson.dumps({"model": model, "usage": usage})
    parts = [b'{"object":"list","data":[']
    step = max(1, PIECE_NUMBERS // rows.shape[1])
    for start in range(0, len(rows), step):
        parts += (_embeddings(rows[start : start + step], start, wanted), b",")
    parts[-1] = b"]," + end_of_it[1:]
    return joined(parts)


def _embeddings(rows: Tensor, start: int, wanted: EmbeddingOptions) -> bytes:
    """Return some rows of an answer, the first of them at `start`, without the brackets of a list."""
    listed: list[Any] = list(rows)
    if wanted.base64:
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
