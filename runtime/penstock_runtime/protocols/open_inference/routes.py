"""The routes of KServe v2 on the client port."""

import asyncio
from functools import partial

from aiohttp import hdrs, web

from penstock_runtime.engine.datatypes import numpy_dtype
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.errors import BadInput, NotServing, UnknownModel, shown
from penstock_runtime.protocols.common.headers import header_seconds
from penstock_runtime.protocols.common.json_structure import to_thread_if_large
from penstock_runtime.protocols.common.long_answers import Body, is_long, to_thread_if_long
from penstock_runtime.protocols.common.replies import (
    REQUEST_ID,
    Reply,
    error_reply,
    json_reply,
    response_of,
)
from penstock_runtime.protocols.common.request_context import (
    CALLER,
    best_class,
    claimed_class,
    granted_class,
)
from penstock_runtime.protocols.common.socket_age import seconds_in_socket
from penstock_runtime.protocols.open_inference import bodies, completion, infer_response, metadata
from penstock_runtime.protocols.open_inference.infer_request import InferCall
from penstock_runtime.protocols.open_inference.text_request import call_of
from penstock_runtime.request import Completed, End
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.auth.callers import ANYBODY
from penstock_runtime.serving.batch.admission import BatchAdmission
from penstock_runtime.serving.pod import Pod

COMPRESS_IN_THREAD_BYTES = 2**20


class OpenInference:
    """The routes of the protocol for one pod."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def routes(self) -> list[web.RouteDef]:
        """Return every route; `infer` can reject a request before its client sends the body."""
        both = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
        of_model = [
            route
            for path in both
            for route in (
                web.get(path, self.model_metadata),
                web.get(f"{path}/config", self.model_config),
                web.get(f"{path}/ready", self.model_ready),
                web.post(f"{path}/infer", self.infer, expect_handler=bodies.postpone_continue),
            )
        ]
        return [
            web.get("/v2", self.server_metadata),
            web.get("/v2/", self.server_metadata),
            web.get("/v2/health/live", self.live),
            web.get("/v2/health/ready", self.ready),
            web.post("/v2/repository/index", self.repository_index),
            web.post("/v2/repository/models/{model}/load", self.reject_control),
            web.post("/v2/repository/models/{model}/unload", self.reject_control),
            *of_model,
        ]

    async def server_metadata(self, _request: web.Request) -> web.Response:
        """Answer `GET /v2`."""
        return json_reply(metadata.server())

    async def live(self, _request: web.Request) -> web.Response:
        """Answer whether the engine is alive."""
        live = not self._pod.health.death
        return json_reply({"live": live}, 200 if live else 500)

    async def ready(self, _request: web.Request) -> web.Response:
        """Answer whether the model serves."""
        ready = self._pod.health.ready
        return json_reply({"ready": ready}, 200 if ready else 503)

    async def model_ready(self, request: web.Request) -> web.Response:
        """Answer whether the model serves, 404 for any other."""
        self._check_model(request)
        ready = self._pod.health.ready
        name = self._pod.config.model_name
        return json_reply({"name": name, "ready": ready}, 200 if ready else 503)

    async def model_metadata(self, request: web.Request) -> web.Response:
        """Answer the model's inputs and outputs."""
        return json_reply(metadata.model(self._model(request)))

    async def model_config(self, request: web.Request) -> web.Response:
        """Answer the configuration in Triton's format, for Triton's tools."""
        return json_reply(
            metadata.configuration(self._model(request), self._pod.live.effective_cap)
        )

    async def repository_index(self, _request: web.Request) -> web.Response:
        """Answer the list of the pod's model."""
        model = self._pod.model
        index = metadata.repository_index(model, ready=self._pod.health.ready) if model else []
        return json_reply(index)

    async def reject_control(self, _request: web.Request) -> web.Response:
        """Reject with Triton's status and message for model-control mode `none`: clients cannot load models."""
        config = self._pod.config
        return error_reply(
            503,
            "explicit model load / unload is not allowed: the model belongs to InferencePool"
            f" {config.pod.namespace}/{config.pod.pool}; edit the pool",
        )

    async def infer(self, request: web.Request) -> web.StreamResponse:
        """Serve one inference; `Admission.receive` counts it however it ends."""
        pod = self._pod
        age = seconds_in_socket(request.transport)
        with pod.admission.receive(age, claimed_class(request)) as ticket:
            self._check_model(request)
            bodies.check_head(request, pod.config.http.max_body_bytes)
            pod.admission.slots.check_slot(best_class(request))
            model = self._model(request)
            call = await self._read(request, model, ticket)
            pod.admission.count_rows(ticket, call.rows, granted_class(request, call.priority))
            options, ending = call.options, self._submit(request, ticket, call)
            del call  # only the engine keeps the tensors: with another process, they would be in memory twice
            try:
                end = await ending
            finally:
                del ending  # a cycle: the traceback of its exception has this frame
        long = isinstance(end, Completed) and is_long(end)
        work = partial(completion.reply_to, end, options, model, request[REQUEST_ID])
        reply = await to_thread_if_long(work, long=long)
        return response_of(await _compress_if_requested(request, reply))

    async def _read(self, request: web.Request, model: ModelInfo, ticket: Ticket) -> InferCall:
        """Return the call of a request; the body is released unless the call's tensors view it."""
        config, admission = self._pod.config, self._pod.admission
        hold = admission.memory.holding(ticket)
        body = await bodies.read(
            request, config.http.max_body_bytes, config.http.body_timeout_seconds, hold
        )
        admission.slots.check_slot(best_class(request))
        length = request.headers.get(bodies.HEADER_LENGTH)
        parts = await to_thread_if_large(len(body), hold, bodies.split, body, length)
        sizes = (numpy_dtype(spec.datatype).itemsize for spec in model.inputs)
        item_bytes = max(sizes, default=0)  # a model that generates has no tensors
        hold(len(body) + parts.numbers * item_bytes)
        call = await to_thread_if_large(len(body), hold, call_of, parts, model, self._pod.texts)
        admission.slots.reserve_slot(ticket, granted_class(request, call.priority))
        if isinstance(call, InferCall):
            hold(max(len(body), call.bytes))
            return call
        del body, parts
        return await call.tokenized(hold, header_seconds(request))

    def _submit(self, request: web.Request, ticket: Ticket, call: InferCall) -> asyncio.Future[End]:
        """Submit a call with the nearer of its deadlines; raises as `Admission.serve`."""
        admission = self._pod.admission
        if not isinstance(admission, BatchAdmission):
            raise BadInput("this model generates text: it has no tensors to infer")
        engine_request = completion.to_request(
            ticket, call, admission.wait.seconds_to_start(header_seconds(request))
        )
        return admission.serve(ticket, request.get(CALLER, ANYBODY).grant(engine_request))

    def _check_model(self, request: web.Request) -> None:
        served = self._pod.config.model_name
        name, version = request.match_info["model"], request.match_info.get("version")
        if name != served:
            raise UnknownModel(
                f"model {shown(name, 140)} is not served here: this pod serves {served!r}",
                field="model",
            )
        if version not in (None, metadata.MODEL_VERSION):
            raise UnknownModel(
                f"model {served!r} has no version {shown(version, 40)}: use {metadata.MODEL_VERSION!r} or leave"
                " the version out",
                field="version",
            )

    def _model(self, request: web.Request) -> ModelInfo:
        self._check_model(request)
        if self._pod.model is None:
            raise NotServing("Loading", "the model is loading: retry shortly")
        return self._pod.model


async def _compress_if_requested(request: web.Request, reply: Reply) -> Reply:
    """Compress a served answer where `Accept-Encoding` names a single coding.

    A single coding is a request (tritonclient's response_compression_algorithm); the list that every HTTP client sends
    by default is only a permission, and compression costs more than it saves within a cluster.
    """
    coding = request.headers.get(hdrs.ACCEPT_ENCODING, "").strip().lower()
    if reply.status != 200 or coding not in ("gzip", "deflate"):
        return reply
    return Reply(
        reply.status,
        await _compressed(reply.body, coding),
        reply.content_type,
        (*reply.headers, (hdrs.CONTENT_ENCODING, coding)),
    )


async def _compressed(body: Body, coding: str) -> bytes:
    if len(body) < COMPRESS_IN_THREAD_BYTES:
        return infer_response.compress(body, coding)
    return await asyncio.to_thread(infer_response.compress, body, coding)
