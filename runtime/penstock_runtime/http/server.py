"""The HTTP servers of a pod: port 8000 for clients, 8001 for the cluster, so that exposing a pool never exposes its controls."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aiohttp import hdrs, web

from penstock_api import names
from penstock_runtime.errors import Defect, RequestRejected, Unrouted, shown
from penstock_runtime.http import descriptors
from penstock_runtime.http.aiohttp_seam import ClientsRunner
from penstock_runtime.http.client_throttle import ClientThrottle
from penstock_runtime.http.cluster_port import ClusterPort, healthz, wait_seconds
from penstock_runtime.http.connection_age import AgingConnections, requests_of_connection
from penstock_runtime.http.connection_limit import BoundedConnection, ConnectionLimit
from penstock_runtime.http.fast_path.connection import FastConnection
from penstock_runtime.http.fast_path.exchange import FastPath
from penstock_runtime.http.fast_path.response import ResponseWriter
from penstock_runtime.http.listener import listen
from penstock_runtime.http.routing import authenticate, routes_of
from penstock_runtime.http.write_buffers import WatchedConnection, WriteBufferLimits
from penstock_runtime.protocols.common.access_log import CLIENT_GONE, AnswersOwed
from penstock_runtime.protocols.common.replies import (
    REQUEST_ID,
    of_rejection,
    rejection_reply,
)
from penstock_runtime.protocols.common.request_context import LAST, LOGGED, tenant_header
from penstock_runtime.protocols.common.request_ids import (
    HEADER_REQUEST_ID,
    HEADER_TRACE_PARENT,
    RequestIds,
    trace_of,
)
from penstock_runtime.protocols.common.socket_age import acknowledged_bytes
from penstock_runtime.protocols.control.auth import TokenVerifier
from penstock_runtime.protocols.control.routes import Control
from penstock_runtime.protocols.openai.errors import openai_rejection, speaks_openai
from penstock_runtime.request import RequestOutcome
from penstock_runtime.serving.batch.client import serves_batches
from penstock_runtime.serving.pod import Pod
from penstock_runtime.telemetry.metrics import Exposition

log = logging.getLogger(__name__)

WRITE_BUFFER_SHARE: Final = 2
"""The bytes that requests may hold, divided by the bytes that unread answers may hold."""

KUBELET: Final = "kube-probe/"
"""Start of the kubelet's `User-Agent` in HTTP probes (kubernetes.io, Configure Probes)."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ClientServer:
    """The client port: protocols, connection ageing, request ids, and every error with an `error` key."""

    def __init__(self, pod: Pod, exposition: Exposition, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is the context of the listening socket; None for plain HTTP."""
        self._pod = pod
        self._exposition = exposition
        self._tls = tls
        self._connections = AgingConnections(
            pod.config.http.connection_age_seconds, self._requests_of_connection
        )
        self._ids = RequestIds()
        self.traffic = AnswersOwed()
        self._throttle = ClientThrottle(pod.now)
        self._write_buffers: WriteBufferLimits | None = None
        self._runner: web.AppRunner | None = None

    def app(self) -> web.Application:
        """Return the application."""
        pod = self._pod
        authentication = [] if pod.callers.open else [authenticate(pod.callers, pod.counters)]
        app = web.Application(middlewares=[self._around, *authentication])
        app.add_routes(routes_of(self._pod))
        if self._pod.config.http.client_metrics:
            app.add_routes([web.get(names.PATH_METRICS, metrics_handler(self._exposition))])
        return app

    async def start(self) -> int:
        """Listen; return the port."""
        config = self._pod.config
        settings: dict[str, Any] = {
            "handler_cancellation": True,  # else a request runs on after its client has left
            "keepalive_timeout": config.http.keep_alive_seconds,  # aiohttp's default is an hour
            "access_log": None,
            "auto_decompress": False,  # aiohttp accepts a gzip body without its trailer: `bodies` decompresses
            "shutdown_timeout": 2.0,  # drain.py has waited already
        }
        limit = ConnectionLimit(self._max_connections, self._surplus_answer)
        self._runner = ClientsRunner(self.app(), self._connection_maker(limit), **settings)
        return await listen(
            self._runner, (config.http.host, config.http.client_port), limit, self._tls
        )

    def _requests_of_connection(self) -> int:
        configured = self._pod.config.http.connection_requests
        return configured or requests_of_connection(self._pod.request_seconds())

    def _max_connections(self) -> int:
        depth = self._pod.live.accepted.max_queue_depth
        return descriptors.client_connections(descriptors.limit(), depth)

    def _surplus_answer(self, rejection: RequestRejected) -> bytes:
        """Count the rejection of a surplus connection, and return its answer."""
        self._pod.admission.reject_unread(rejection)
        wire = ResponseWriter(self._pod.config.pod.name)
        return wire.write(of_rejection(rejection), self._ids.new(), closes=True)

    def _connection_maker(self, limit: ConnectionLimit) -> Callable[..., BoundedConnection]:
        """Return the factory of protocols for new connections."""
        pod, config = self._pod, self._pod.config
        write_buffers = self._write_buffers = WriteBufferLimits(
            pod.admission.memory.hold_unread,
            config.queue.max_held_bytes // WRITE_BUFFER_SHARE,
            config.http.body_timeout_seconds,
            asyncio.get_running_loop().call_later,
            acknowledged_bytes,
        )
        if not (config.http.fast_path and pod.callers.open and serves_batches(pod)):
            return partial(WatchedConnection, write_buffers=write_buffers, limit=limit)
        path = FastPath(pod, self._connections, self.traffic, self._ids, self._throttle)
        return partial(FastConnection, path=path, write_buffers=write_buffers, limit=limit)

    def open_connections(self) -> int:
        """Return the number of connected clients."""
        return len(self._connected())

    def answered(self) -> bool:
        """Return whether no request is in flight, and clients have read all answers, or the socket has them."""
        if self.traffic.in_flight or (self._write_buffers and self._write_buffers.unread):
            return False
        transports = [connection.transport for connection in self._connected()]
        return not any(each.get_write_buffer_size() for each in transports if each is not None)

    def _connected(self) -> list[web.RequestHandler]:
        server = self._runner.server if self._runner else None
        return server.connections if server else []

    async def stop(self) -> None:
        """Stop listening and close open connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        began = self._pod.now()
        request_id = self._ids.choose(request.headers.get(HEADER_REQUEST_ID, ""))
        request[REQUEST_ID] = request_id
        balanced = names.HEADER_GATEWAY in request.headers
        last = request[LAST] = not balanced and self._connections.count_request(
            request.transport, began
        )
        self.traffic.begin(began)
        try:
            reply = await answer(request, handler)
        except (asyncio.CancelledError, ConnectionError):
            self._log(request, began, CLIENT_GONE, outcome=RequestOutcome.CANCELLED)
            raise
        finally:
            self.traffic.end()
        reply.headers[HEADER_REQUEST_ID] = request_id
        reply.headers[names.HEADER_POD] = self._pod.config.pod.name
        reply.headers[hdrs.SERVER] = "penstock"
        reply.headers.update(tenant_header(request))
        # a stream has sent its Connection header already
        if not reply.prepared and (last or self._pod.health.closing):
            reply.force_close()
        self._throttle.record_reply(request, reply.status, self._pod.now())
        self._log(request, began, reply.status)
        return reply

    def _log(self, request: web.Request, began: float, status: int, **more: object) -> None:
        if not self._pod.config.log.access_log:
            return
        known = {
            "status": status,
            "seconds": round(self._pod.now() - began, 6),
            "request_id": request[REQUEST_ID],
            "remote": request.remote,
            **trace_of(request.headers.get(HEADER_TRACE_PARENT)),
            **request.get(LOGGED, {}),
        }
        self.traffic.log(request.method, request.path, **known | more)


class ClusterServer:
    """The cluster port: probes, metrics and control. It answers from the start, also while the model loads."""

    def __init__(self, pod: Pod, exposition: Exposition, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is the context of the listening socket; None for plain HTTP."""
        self._pod = pod
        self._exposition = exposition
        self._tls = tls
        self._port: ClusterPort | None = None

    def app(self) -> web.Application:
        """Return the application."""
        config = self._pod.config
        verifier = TokenVerifier(
            config.files.control_keys_file, config.pod.uid, insecure=config.auth.insecure_control
        )
        app = web.Application(middlewares=[errors_as_json])
        app.add_routes(Control(self._pod, verifier).routes())
        app.add_routes(
            [
                web.get(names.PATH_HEALTHZ, self._healthz),
                web.get(names.PATH_READYZ, self._readyz),
                web.get(names.PATH_METRICS, metrics_handler(self._exposition)),
            ]
        )
        return app

    async def start(self) -> int:
        """Listen; return the port."""
        config = self._pod.config
        self._port = ClusterPort(config.http, config.pod.name, self.app(), self._tls)
        return await self._port.start()

    async def stop(self) -> None:
        """Stop listening and close open connections."""
        if self._port is not None:
            await self._port.stop()

    async def _healthz(self, _request: web.Request) -> web.Response:
        return healthz(self._pod.health.death)

    async def _readyz(self, request: web.Request) -> web.Response:
        """Answer 200 while the pod serves, and to the kubelet also while it drains quietly (docs/design/runtime.md#drain).

        With `waitSeconds`, a pod that loads its model answers when it is warm, at the latest after that time.
        """
        health = self._pod.health
        seconds = wait_seconds(request)
        with suppress(TimeoutError):
            await asyncio.wait_for(health.loaded.wait(), seconds)
        by_kubelet = request.headers.get(hdrs.USER_AGENT, "").startswith(KUBELET)
        if by_kubelet:
            health.probed_at = self._pod.now()
        if health.ready or (by_kubelet and self._pod.drains_quietly()):
            return web.Response(text="ok\n")
        return web.Response(status=503, text=f"{health.stage}\n")


def metrics_handler(exposition: Exposition) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler of `/metrics`."""

    async def metrics(request: web.Request) -> web.Response:
        body, content_type = exposition.render(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})

    return metrics


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors with an `error` key."""
    return await answer(request, handler)


async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return the handler's answer, or the answer to the rejection or error that it raised."""
    try:
        return await handler(request)
    except RequestRejected as rejection:
        return _rejected(request, rejection)
    except web.HTTPException as error:
        return _unrouted(request, error)
    except ConnectionError:
        raise
    except Exception:  # the last line of defence: the client gets a 500, the log the traceback
        log.exception(
            "defect while serving a request", extra={"request_id": request.get(REQUEST_ID)}
        )
        request[LOGGED] = {**request.get(LOGGED, {}), "outcome": RequestOutcome.FAILED}
        return _rejected(request, Defect())


def _rejected(request: web.Request, rejection: RequestRejected) -> web.Response:
    """Return a rejection in the format of the protocol that serves its path."""
    return (
        openai_rejection(rejection) if speaks_openai(request.path) else rejection_reply(rejection)
    )


def _unrouted(request: web.Request, error: web.HTTPException) -> web.Response:
    message = f"{error.status} {error.reason}: {request.method} {shown(request.path, 160)} is not served here"
    reply = _rejected(request, Unrouted(error.status, message))
    if hdrs.ALLOW in error.headers:
        reply.headers[hdrs.ALLOW] = error.headers[hdrs.ALLOW]
    return reply
