"""The handler of every generation request: admission, body, checks, engine, answer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Final, TypeVar

from aiohttp import web

from penstock_runtime.errors import DeadlinePassed, RequestRejected
from penstock_runtime.protocols.common.json_structure import to_thread_if_large
from penstock_runtime.protocols.common.replies import REQUEST_ID
from penstock_runtime.protocols.common.request_context import (
    CALLER,
    claimed_class,
    client_headers,
    record_rejection,
)
from penstock_runtime.protocols.open_inference import bodies
from penstock_runtime.protocols.openai.responder import record_end, reply_stream, reply_whole
from penstock_runtime.protocols.openai.response import AnswerFormat
from penstock_runtime.protocols.openai.sampling import Terms, timeout_seconds
from penstock_runtime.protocols.openai.wire.base import GenerationBody, WireBody, read
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.auth.callers import ANYBODY
from penstock_runtime.serving.generation.client import GenerationPod
from penstock_runtime.serving.generation.response_stream import ResponseStream
from penstock_runtime.text.string_automaton import automaton_of

log = logging.getLogger(__name__)

LONG_STOPS: Final = 2048
"""Characters of stop strings whose automaton is built in a thread: up to 35 ms for the longest."""
MAX_LOGGED_FIELDS: Final = 1000
"""Number of names after which unknown fields are no longer logged: a client may invent names."""

Body = TypeVar("Body", bound=GenerationBody)
Prepare = Callable[[Body, str, Terms], Awaitable[AnswerFormat]]
Respond = Callable[[Ticket, Body, Terms], Awaitable[web.StreamResponse]]


class GenerationHandler:
    """Serves generation requests with any type of body; `Admission.receive` counts each, however it ends."""

    def __init__(self, pod: GenerationPod) -> None:
        self._pod = pod
        self._unknown = UnknownFields()

    async def serve(
        self, request: web.Request, kind: type[Body], prepare: Prepare[Body]
    ) -> web.StreamResponse:
        """Serve one generation."""

        async def respond(ticket: Ticket, body: Body, terms: Terms) -> web.StreamResponse:
            async with self.within(terms.timeout_seconds, ticket):
                answer = await prepare(body, self._pod.config.model_name, terms)
            return await self.answer(request, ticket, answer, stream=body.streams)

        return await self.receive(request, kind, respond)

    async def receive(
        self, request: web.Request, kind: type[Body], respond: Respond[Body]
    ) -> web.StreamResponse:
        """Read a body, and respond to it on the terms of its caller.

        Raises:
            RequestRejected: the request is rejected before its answer begins.
        """
        try:
            priority = claimed_class(request)
            with (
                self._pod.admission.receive(priority=priority) as ticket,
                ExitStack() as resources,
            ):
                body = await self._body(request, ticket, kind)
                serving = self._pod.engine.require_serving()
                seconds = timeout_seconds(request, body.requested_seconds)
                config = self._pod.config
                caller = request.get(CALLER, ANYBODY)
                terms = Terms(
                    serving, caller, seconds, config.generation.max_run_seconds, resources
                )
                return await respond(ticket, body, terms)
        except RequestRejected as rejection:
            record_rejection(request, rejection)
            raise

    async def answer(
        self, request: web.Request, ticket: Ticket, answer: AnswerFormat, *, stream: bool
    ) -> web.StreamResponse:
        """Submit a checked call, and answer it."""
        pod, call = self._pod, answer.call
        serving = pod.engine.require_serving()
        prompts = len(call.prompts)
        with pod.admission.receive_prompts(ticket, prompts, call.priority) as tickets:
            if sum(map(len, call.stops)) > LONG_STOPS:
                await asyncio.to_thread(automaton_of, call.stops)
            handover = pod.engine.hand_over(client_headers(request))
            answering = ResponseStream(call, tickets, pod.admission, serving, handover)
            try:
                answering.begin()
                pod.engine.tokens.prompt_tokens_received += sum(
                    len(prompt.ids) for prompt in call.prompts
                )
                if stream:
                    return await reply_stream(request, answer, answering, pod)
                return await reply_whole(answer, answering)
            finally:
                answering.close()
                record_end(request, answering)

    @asynccontextmanager
    async def within(self, seconds: float | None, ticket: Ticket) -> AsyncIterator[None]:
        """Limit the block to `seconds` from the arrival of `ticket`.

        Raises:
            DeadlinePassed: they have passed.
        """
        deadline, now = ticket.deadline(seconds), self._pod.admission.now()
        try:
            async with asyncio.timeout(None if deadline is None else deadline - now):
                yield
        except TimeoutError:
            raise DeadlinePassed(
                f"the deadline passed after {seconds} s, before the prompt and its grammar were ready: allow more time"
            ) from None

    async def _body(self, request: web.Request, ticket: Ticket, kind: type[Body]) -> Body:
        pod = self._pod
        bodies.check_head(request, pod.config.http.max_body_bytes)
        pod.admission.slots.check_slot()
        hold = pod.admission.memory.holding(ticket)
        raw = await bodies.read(
            request, pod.config.http.max_body_bytes, pod.config.http.body_timeout_seconds, hold
        )
        pod.admission.slots.reserve_slot(ticket)
        body = await to_thread_if_large(len(raw), hold, read, kind, raw)
        pod.check_model(body.requested_model)
        self._unknown.log(request, body)
        return body


class UnknownFields:
    """Logs each unknown field name once."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def log(self, request: web.Request, body: WireBody) -> None:
        """Log the fields of `body` that this API does not have, each name once."""
        for name in body.unknown():
            if name in self._logged or len(self._logged) >= MAX_LOGGED_FIELDS:
                continue
            self._logged.add(name)
            log.info(
                "ignoring unknown field %r",
                name[:80],
                extra={"request_id": request.get(REQUEST_ID), "path": request.path},
            )
