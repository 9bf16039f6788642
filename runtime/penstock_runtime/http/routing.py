"""Routes of the protocols that a pod serves, and the middleware that authenticates callers.

Only the served protocols are imported: each takes memory.
"""

from typing import Final

from aiohttp import web
from aiohttp.hdrs import METH_POST
from aiohttp.typedefs import Handler, Middleware

from penstock_api.types.model import Task
from penstock_runtime.errors import RequestRejected
from penstock_runtime.protocols.common.request_context import CALLER, record_rejection
from penstock_runtime.protocols.open_inference.routes import OpenInference
from penstock_runtime.serving.auth.callers import Callers
from penstock_runtime.serving.batch.client import serves_batches
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.pod import Pod

UNAUTHENTICATED_PATHS: Final = frozenset(
    {"/health", "/ping", "/version", "/v2", "/v2/health/live", "/v2/health/ready"}
)
"""Paths that need no key: their answers hold nothing beyond what a probe may see."""


def routes_of(pod: Pod) -> list[web.RouteDef]:
    """Return the routes of every protocol that `pod` serves."""
    routes = OpenInference(pod).routes()
    if pod.config.model.task is Task.TEXT_GENERATION:
        routes += _generation_routes(pod)
    if pod.config.model.task is Task.EMBEDDING:
        from penstock_runtime.protocols.openai.embeddings.routes import Embeddings  # noqa: PLC0415

        assert serves_batches(pod)  # noqa: S101 - as `assembly.make_pod` makes it
        routes += Embeddings(pod).routes()
    return routes


def _generation_routes(pod: Pod) -> list[web.RouteDef]:
    from penstock_runtime.protocols.handover.routes import TakeOver  # noqa: PLC0415
    from penstock_runtime.protocols.openai.routes import OpenAI  # noqa: PLC0415
    from penstock_runtime.protocols.triton_generate import GenerateExtension  # noqa: PLC0415
    from penstock_runtime.serving.generation.client import serves_generation  # noqa: PLC0415

    assert serves_generation(pod)  # noqa: S101 - `assembly.make_pod` chooses by the task
    return [
        *OpenAI(pod).routes(),
        *GenerateExtension(pod).routes(),
        *TakeOver(pod).routes(),
    ]


def authenticate(callers: Callers, counters: Counters) -> Middleware:
    """Return the middleware that identifies callers and rejects unknown ones; rejected requests, which are POSTs, are counted."""

    @web.middleware
    async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in UNAUTHENTICATED_PATHS:
            return await handler(request)
        try:
            request[CALLER] = callers.identify(request.headers, request.remote)
        except RequestRejected as rejection:
            if request.method == METH_POST:
                counters.received += 1
                counters.interactive.rejected[rejection.reason] += 1
            record_rejection(request, rejection)
            raise
        return await handler(request)

    return identify
