"""Triton's generate extension of KServe v2: one text in, one text out, whole or as a stream."""

from dataclasses import replace
from typing import Any

from aiohttp import web
from typing_extensions import override

from penstock_runtime.errors import BadInput, shown
from penstock_runtime.protocols.common.replies import error_body
from penstock_runtime.protocols.open_inference import bodies, metadata
from penstock_runtime.protocols.openai.completions import CompletionAnswer, completion_answer
from penstock_runtime.protocols.openai.handler import GenerationHandler
from penstock_runtime.protocols.openai.response import AnswerFormat, Object
from penstock_runtime.protocols.openai.sampling import Terms
from penstock_runtime.protocols.openai.wire.generate import (
    GenerateBody,
    StreamedGenerateBody,
    parameter,
)
from penstock_runtime.serving.generation.choice import Chunk
from penstock_runtime.serving.generation.client import GenerationPod
from penstock_runtime.serving.generation.request import GenerationCall
from penstock_runtime.serving.generation.response_stream import TokenUsage


class GenerateExtension:
    """The routes of the extension for one pod."""

    def __init__(self, pod: GenerationPod) -> None:
        self._pod = pod
        self._handler = GenerationHandler(pod)

    def routes(self) -> list[web.RouteDef]:
        """Return both routes, with and without a version."""
        both = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
        hold = {"expect_handler": bodies.postpone_continue}
        return [
            route
            for path in both
            for route in (
                web.post(f"{path}/generate", self.whole, **hold),
                web.post(f"{path}/generate_stream", self.stream, **hold),
            )
        ]

    async def whole(self, request: web.Request) -> web.StreamResponse:
        """Serve the whole text."""
        return await self._handler.serve(request, GenerateBody, self._prepare(request))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Serve the text as a stream."""
        return await self._handler.serve(request, StreamedGenerateBody, self._prepare(request))

    def _prepare(self, request: web.Request) -> Any:
        name, version = request.match_info["model"], request.match_info.get("version")

        async def prepare(body: GenerateBody, model: str, terms: Terms) -> GenerateAnswer:
            self._pod.check_model(name)
            if version not in (None, metadata.MODEL_VERSION):
                raise BadInput(
                    f"model {model!r} has no version {shown(version, 40)}: use"
                    f" {metadata.MODEL_VERSION!r} or leave the version out",
                    field="version",
                )
            plain = await _completion(body, model, terms)
            return GenerateAnswer(_with_wire_field(plain.call), body.id, model)

        return prepare


async def _completion(body: GenerateBody, model: str, terms: Terms) -> CompletionAnswer:
    try:
        return await completion_answer(body.as_completion(), model, terms)
    except BadInput as error:
        field = error.field or ""
        error.field = "text_input" if field == "prompt" else parameter(field)
        raise


def _with_wire_field(call: GenerationCall) -> GenerationCall:
    """Return `call` with the field of its grammar as this protocol names it."""
    shape = call.shape
    return (
        call if shape is None else replace(call, shape=replace(shape, field=parameter(shape.field)))
    )


class GenerateAnswer(AnswerFormat):
    """The answer `text_output` with the model's name."""

    ends_with_done = False
    returns_prompts = False

    def __init__(self, call: GenerationCall, name: str | None, model: str) -> None:
        self.call = call
        self._text = ""
        self._head: Object = {"model_name": model, "model_version": metadata.MODEL_VERSION}
        if name is not None:
            self._head["id"] = name

    @override
    def chunks(self, pieces: list[Chunk], _usage: TokenUsage) -> list[Object]:
        return [{**self._head, "text_output": piece.text} for piece in pieces if piece.text]

    @override
    def closing(self, _usage: TokenUsage) -> list[Object]:
        """Return no event: the end of the connection's chunks ends the stream."""
        return []

    @override
    def take(self, pieces: list[Chunk]) -> None:
        self._text += "".join(piece.text for piece in pieces)

    @override
    def whole(self, _usage: TokenUsage) -> Object:
        return {**self._head, "text_output": self._text}

    @override
    def error(self, status: int, message: str, field: str | None, reason: str) -> Object:
        """Return an error as KServe v2 has it, with a text."""
        return error_body(message, field)
