"""`POST /v1/embeddings` on the client port of a pool whose task is Embedding."""

import base64
from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
import orjson
from aiohttp import web

from penstock_api.limits import MAX_BATCH_SIZE
from penstock_runtime.admission import Ticket
from penstock_runtime.callers.callers import ANYBODY
from penstock_runtime.errors import BadInput, NotServing, Refusal
from penstock_runtime.models.base import ModelInfo, group_of
from penstock_runtime.pod import Pod
from penstock_runtime.protocols.marks import CALLER
from penstock_runtime.protocols.open_inference import bodies
from penstock_runtime.protocols.open_inference.ends import HEADER_QUEUE_SECONDS
from penstock_runtime.protocols.open_inference.routes import header_seconds
from penstock_runtime.protocols.openai.embedding_calls import EmbeddingCall, parse
from penstock_runtime.protocols.openai.errors import openai_error, openai_refusal
from penstock_runtime.protocols.replies import JSON
from penstock_runtime.request import Cancelled, Completed, End, Expired, Failed, Request, Tensor
from penstock_runtime.tokenizing import Ids, Tokenizing, rows_of


class Embeddings:
    """Answers the route for one pod; what it refuses and counts is what Open Inference does."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def routes(self) -> list[web.RouteDef]:
        """Return the route; a refusal reaches a client before it sends its body."""
        return [
            web.post("/v1/embeddings", self.create, expect_handler=bodies.postpone_continue),
        ]

    async def create(self, request: web.Request) -> web.Response:
        """Answer one call."""
        try:
            with self._pod.admission.receive() as ticket:
                call, ids, end = await self._serve(request, ticket)
        except Refusal as refusal:
            return openai_refusal(refusal)
        return self.answer(call, ids, end)

    async def _serve(
        self, request: web.Request, ticket: Ticket
    ) -> tuple[EmbeddingCall, Sequence[Ids], End]:
        pod = self._pod
        bodies.check_head(request, pod.config.max_body_bytes)
        pod.admission.check_door(ticket)
        pod.admission.hold_bytes(ticket, request.content_length or bodies.UNKNOWN_BYTES)
        model, texts = self._model()
        body = await bodies.read(request, pod.config.max_body_bytes, pod.config.body_seconds)
        pod.admission.hold_bytes(ticket, len(body))
        call = parse(_json(body), pod.config.model_name, model.outputs[0].shape[1])
        pod.admission.count_rows(ticket, len(call.texts) + len(call.ids))
        ids = call.ids
        if call.texts:
            ids = await texts.encode(call.texts, "input", cut=call.cut)
        elif call.cut:
            ids = [one[: texts.most_tokens] for one in ids]
        texts.check(ids, "input")
        asked = request.get(CALLER, ANYBODY).grant(_request(request, ticket, call, ids, model))
        end = await pod.admission.serve(ticket, asked)
        return call, ids, end

    def _model(self) -> tuple[ModelInfo, Tokenizing]:
        model, texts = self._pod.model, self._pod.texts
        if model is None or texts is None:
            raise NotServing("Loading", "the model is being loaded: try again soon")
        return model, texts

    def answer(self, call: EmbeddingCall, ids: Sequence[Ids], end: End) -> web.Response:
        """Return the answer that tells a client how its call ended."""
        match end:
            case Completed():
                (vectors,) = end.outputs.values()
                body = rendered(vectors, ids, self._pod.config.model_name, as_base64=call.base64)
                waited = {HEADER_QUEUE_SECONDS: f"{end.queue_seconds:.6f}"}
                return web.Response(body=body, headers=waited, content_type=JSON)
            case Failed():
                status = 500 if end.retry_after_seconds is None else 503
                return openai_error(status, end.reason, retry_after_seconds=end.retry_after_seconds)
            case Expired():
                return openai_error(
                    504,
                    f"the deadline passed after {end.waited_seconds:.3f} s of waiting: allow more time",
                    param="timeout",
                )
            case Cancelled():
                return openai_error(499, "the request was cancelled")
            case _:
                assert_never(end)


def rendered(vectors: Tensor, ids: Sequence[Ids], model: str, *, as_base64: bool) -> bytes:
    """Return the answer's body; base64 is of little-endian float32, as OpenAI's client reads it."""
    rows = np.ascontiguousarray(vectors, np.dtype("<f4"))
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(row.tobytes()).decode() if as_base64 else row,
        }
        for index, row in enumerate(rows)
    ]
    tokens = sum(len(one) for one in ids)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    body = {"object": "list", "data": data, "model": model, "usage": usage}
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def _request(
    http: web.Request, ticket: Ticket, call: EmbeddingCall, ids: Sequence[Ids], model: ModelInfo
) -> Request:
    inputs = rows_of(ids)
    if len(ids) > MAX_BATCH_SIZE:
        raise BadInput(
            f"`input` has {len(ids)} entries: send at most {MAX_BATCH_SIZE}", field="input"
        )
    seconds = [one for one in (call.timeout_seconds, header_seconds(http)) if one is not None]
    return Request(
        id=ticket.id,
        inputs=inputs,
        rows=len(ids),
        group=group_of(model, inputs),
        arrived=ticket.arrived,
        deadline=ticket.arrived + min(seconds) if seconds else None,
        priority=call.priority,
    )


def _json(body: bytes | bytearray) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"the body is not valid JSON: {error}", field="body") from error
