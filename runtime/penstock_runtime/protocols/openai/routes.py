"""The routes of the OpenAI API on the client port of a pod that generates text."""

import asyncio
from typing import Any, TypeVar

from aiohttp import web

from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.common.json_structure import to_thread_if_large
from penstock_runtime.protocols.common.replies import json_reply
from penstock_runtime.protocols.open_inference import bodies, metadata
from penstock_runtime.protocols.openai.chat.conversion import chat_answer
from penstock_runtime.protocols.openai.chat.prompts import render
from penstock_runtime.protocols.openai.completions import completion_answer
from penstock_runtime.protocols.openai.handler import GenerationHandler
from penstock_runtime.protocols.openai.models import Models
from penstock_runtime.protocols.openai.wire.base import WireBody, read
from penstock_runtime.protocols.openai.wire.chat import ChatBody
from penstock_runtime.protocols.openai.wire.completion import (
    CompletionBody,
    DetokenizeBody,
    TokenizeBody,
)
from penstock_runtime.serving.admission.memory_budget import Hold
from penstock_runtime.serving.generation.client import GenerationPod
from penstock_runtime.serving.generation.loaded_model import Serving
from penstock_runtime.text.detokenizer import detokenize

Plain = TypeVar("Plain", bound=WireBody)


class OpenAI:
    """The routes of the protocol for one pod."""

    def __init__(self, pod: GenerationPod) -> None:
        self._pod = pod
        self._handler = GenerationHandler(pod)

    def routes(self) -> list[web.RouteDef]:
        """Return every route; a rejection can reach a client before it sends its body."""
        hold = {"expect_handler": bodies.postpone_continue}
        return [
            *Models(self._pod).routes(),
            web.post("/v1/chat/completions", self.chat, **hold),
            web.post("/v1/completions", self.completions, **hold),
            web.post("/tokenize", self.tokenize, **hold),
            web.post("/detokenize", self.detokenize, **hold),
            web.get("/health", self.health),
            web.get("/ping", self.health),
            web.get("/version", self.version),
        ]

    async def health(self, _request: web.Request) -> web.Response:
        """Answer whether this pod serves."""
        return web.Response(status=200 if self._pod.health.ready else 503)

    async def version(self, _request: web.Request) -> web.Response:
        """Answer this runtime's version."""
        return json_reply({"version": metadata.server()["version"]})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Serve a chat completion."""
        return await self._handler.serve(request, ChatBody, chat_answer)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """Serve a completion."""
        return await self._handler.serve(request, CompletionBody, completion_answer)

    async def tokenize(self, request: web.Request) -> web.Response:
        """Answer the tokens of a text, or of a chat."""
        with self._pod.admission.memory.hold_meanwhile() as hold:
            body = await self._plain_body(request, TokenizeBody, hold)
            serving = self._pod.engine.require_serving()
            ids = await _ids(body, serving)
        answer: dict[str, Any] = {
            "count": len(ids),
            "max_model_len": serving.info.max_model_len,
            "tokens": ids,
        }
        if body.return_token_strs:
            answer["token_strs"] = await asyncio.to_thread(serving.tokenizer.token_strings, ids)
        return json_reply(answer)

    async def detokenize(self, request: web.Request) -> web.Response:
        """Answer the text of tokens."""
        with self._pod.admission.memory.hold_meanwhile() as hold:
            body = await self._plain_body(request, DetokenizeBody, hold)
            serving = self._pod.engine.require_serving()
            serving.encoder.check_ids(len(body.tokens), "tokens")
            vocabulary = serving.tokenizer.vocabulary
            text = await asyncio.to_thread(detokenize, vocabulary, body.tokens, skip_special=False)
            return json_reply({"prompt": text})

    async def _plain_body(self, request: web.Request, kind: type[Plain], hold: Hold) -> Plain:
        """Return the body of a request that does not reach the engine."""
        config = self._pod.config
        bodies.check_head(request, config.http.max_body_bytes)
        raw = await bodies.read(
            request, config.http.max_body_bytes, config.http.body_timeout_seconds, hold
        )
        body = await to_thread_if_large(len(raw), hold, read, kind, raw)
        self._pod.check_model(getattr(body, "model", None))
        return body


async def _ids(body: TokenizeBody, serving: Serving) -> list[int]:
    if body.messages is not None:
        _, ids = await render(serving, body.messages, body, body.tool_objects)
        return ids
    if body.prompt is None:
        raise BadInput("`prompt` or `messages` is missing: send one of them", field="prompt")
    special = body.add_special_tokens is not False
    return await serving.encoder.encode(body.prompt, "prompt", add_special=special)
