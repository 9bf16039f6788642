"""`POST /v1/embeddings` on the client port of a pool whose task is Embedding, as aiohttp serves it."""

import asyncio
from functools import partial

from aiohttp import web

from penstock_runtime.protocols.common.headers import header_seconds
from penstock_runtime.protocols.common.json_structure import to_thread_if_large
from penstock_runtime.protocols.common.long_answers import is_long, to_thread_if_long
from penstock_runtime.protocols.common.replies import Reply, response_of
from penstock_runtime.protocols.common.request_context import CALLER, best_class
from penstock_runtime.protocols.common.socket_age import seconds_in_socket
from penstock_runtime.protocols.open_inference import bodies
from penstock_runtime.protocols.openai.embedding_response import (
    EmbeddingInput,
    read,
    reply_to,
    to_request,
    tokenised,
)
from penstock_runtime.protocols.openai.models import Models
from penstock_runtime.request import Completed, End
from penstock_runtime.serving.auth.callers import ANYBODY
from penstock_runtime.serving.pod import Pod
from penstock_runtime.serving.ticket import Ticket

PATH = "/v1/embeddings"


class Embeddings:
    """Answers the routes for one pod; what it refuses and counts is what Open Inference does."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def routes(self) -> list[web.RouteDef]:
        """Return the routes; a refusal reaches a client before it sends its body."""
        create = web.post(PATH, self.create, expect_handler=bodies.postpone_continue)
        return [create, *Models(self._pod).routes()]

    async def create(self, request: web.Request) -> web.Response:
        """Answer one call."""
        with self._pod.admission.receive(seconds_in_socket(request.transport)) as ticket:
            return response_of(await self._serve(request, ticket))

    async def _serve(self, request: web.Request, ticket: Ticket) -> Reply:
        pod = self._pod
        bodies.check_head(request, pod.config.http.max_body_bytes)
        pod.admission.check_door(best_class(request))
        asked = await self._read(request, ticket)
        pod.admission.count_rows(ticket, asked.rows)
        wanted, ending = asked.wanted, self._submit(request, ticket, asked)
        del asked  # as in Open Inference: the engine alone keeps its tokens
        end = await ending
        long = isinstance(end, Completed) and is_long(end)
        return await to_thread_if_long(
            partial(reply_to, end, wanted, pod.config.model_name), long=long
        )

    def _submit(
        self, request: web.Request, ticket: Ticket, asked: EmbeddingInput
    ) -> asyncio.Future[End]:
        admission = self._pod.admission
        made = to_request(ticket, asked, admission.seconds_to_start(header_seconds(request)))
        return admission.serve(ticket, request.get(CALLER, ANYBODY).grant(made))

    async def _read(self, request: web.Request, ticket: Ticket) -> EmbeddingInput:
        config, admission = self._pod.config, self._pod.admission
        hold = admission.holding(ticket)
        body = await bodies.read(
            request, config.http.max_body_bytes, config.http.body_timeout_seconds, hold
        )
        admission.take_place(ticket, best_class(request))
        call = await to_thread_if_large(len(body), read, body, self._pod)
        del body
        return await tokenised(call, self._pod, hold, header_seconds(request))
