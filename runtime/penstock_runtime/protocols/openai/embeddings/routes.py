"""The routes of a pool whose task is Embedding: `POST /v1/embeddings` on aiohttp's path, and `/v1/models`."""

import asyncio
from functools import partial

from aiohttp import web

from penstock_runtime.protocols.common.headers import header_seconds
from penstock_runtime.protocols.common.json_structure import to_thread_if_large
from penstock_runtime.protocols.common.long_answers import is_long, to_thread_if_long
from penstock_runtime.protocols.common.replies import Reply, response_of
from penstock_runtime.protocols.common.request_context import (
    CALLER,
    best_class,
    claimed_class,
    granted_class,
)
from penstock_runtime.protocols.common.socket_age import seconds_in_socket
from penstock_runtime.protocols.open_inference import bodies
from penstock_runtime.protocols.openai.embeddings.response import (
    EmbeddingInput,
    read,
    reply_to,
    to_request,
    tokenized,
)
from penstock_runtime.protocols.openai.models import Models
from penstock_runtime.request import Completed, End
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.auth.callers import ANYBODY
from penstock_runtime.serving.batch.client import BatchPod

PATH = "/v1/embeddings"


class Embeddings:
    """The routes for one pod; rejections and counters are those of Open Inference."""

    def __init__(self, pod: BatchPod) -> None:
        self._pod = pod

    def routes(self) -> list[web.RouteDef]:
        """Return the routes; a rejection can reach a client before it sends its body."""
        create = web.post(PATH, self.create, expect_handler=bodies.postpone_continue)
        return [create, *Models(self._pod).routes()]

    async def create(self, request: web.Request) -> web.Response:
        """Serve one call."""
        age = seconds_in_socket(request.transport)
        with self._pod.admission.receive(age, claimed_class(request)) as ticket:
            return response_of(await self._serve(request, ticket))

    async def _serve(self, request: web.Request, ticket: Ticket) -> Reply:
        pod = self._pod
        bodies.check_head(request, pod.config.http.max_body_bytes)
        pod.admission.slots.check_slot(best_class(request))
        call = await self._read(request, ticket)
        pod.admission.count_rows(ticket, call.rows, granted_class(request, call.priority))
        options, ending = call.options, self._submit(request, ticket, call)
        del call  # as in Open Inference: only the engine keeps the tokens
        try:
            end = await ending
        finally:
            del ending  # a cycle: the traceback of its exception has this frame
        long = isinstance(end, Completed) and is_long(end)
        return await to_thread_if_long(
            partial(reply_to, end, options, pod.config.model_name), long=long
        )

    def _submit(
        self, request: web.Request, ticket: Ticket, call: EmbeddingInput
    ) -> asyncio.Future[End]:
        admission = self._pod.admission
        seconds = admission.wait.seconds_to_start(header_seconds(request))
        engine_request = to_request(ticket, call, seconds)
        return admission.serve(ticket, request.get(CALLER, ANYBODY).grant(engine_request))

    async def _read(self, request: web.Request, ticket: Ticket) -> EmbeddingInput:
        config, admission = self._pod.config, self._pod.admission
        hold = admission.memory.holding(ticket)
        body = await bodies.read(
            request, config.http.max_body_bytes, config.http.body_timeout_seconds, hold
        )
        admission.slots.check_slot(best_class(request))
        call = await to_thread_if_large(len(body), hold, read, body, self._pod)
        del body
        admission.slots.reserve_slot(ticket, granted_class(request, call.priority))
        return await tokenized(call, self._pod, hold, header_seconds(request))
