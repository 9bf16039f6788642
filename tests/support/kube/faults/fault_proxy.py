"""A proxy in front of the real API server that injects faults: 429s, server errors, dropped watches.

Its clients act with the credentials of the kubeconfig that it was created from. It runs in a thread with an event loop
of its own, so that a test can change the fault while it waits.
"""

import asyncio
import logging
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from kubernetes import client, config

from tests.support.kube.loopback import listening

QUIET = logging.getLogger(f"{__name__}.connections")
"""Logger without output: broken connections are expected here."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length", "upgrade"}


class ProxyFault(Enum):
    """The fault that the proxy injects into its answers."""

    NONE = "every request passes"
    TOO_MANY = "429"
    SERVER_ERROR = "500"
    NO_WATCH = "watches fail, every other request passes"


@dataclass(slots=True)
class FaultProxy:
    """A running proxy; `fault` may be set at any time."""

    kubeconfig: Path
    fault: ProxyFault = ProxyFault.NONE
    answers: Counter[int] = field(default_factory=Counter)
    """Number of answers by HTTP status."""
    url: str = ""
    _watches: set[asyncio.Task[Any]] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @property
    def watches(self) -> int:
        """Number of open watches."""
        return len(self._watches)

    def drop_watches(self) -> int:
        """Cut every open watch in mid-stream; return their number."""

        async def drop() -> int:
            cut = list(self._watches)
            for watch in cut:
                watch.cancel()
            return len(cut)

        return asyncio.run_coroutine_threadsafe(drop(), self._loop).result(10)

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        server, context, headers = _upstream(self.kubeconfig)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        ) as session:

            async def answer(request: web.Request) -> web.StreamResponse:
                try:
                    reply = await self._answer(request, session, server, headers)
                except (
                    aiohttp.ClientConnectionError
                ):  # an upstream connection error becomes one of the client
                    if request.transport is not None:
                        request.transport.abort()
                    raise
                self.answers[reply.status] += 1
                return reply

            app = web.Application(client_max_size=2**24)
            app.router.add_route("*", "/{any:.*}", answer)
            async with listening(app, shutdown_seconds=0.2, logger=QUIET) as self.url:
                started.set()
                await stop.wait()

    async def _answer(
        self, request: web.Request, session: aiohttp.ClientSession, server: str, more: Any
    ) -> web.StreamResponse:
        watching = request.query.get("watch") in ("1", "true")
        refused = _refused(self.fault, watching=watching)
        if refused is not None:
            return refused
        kept = {k: v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP}
        kept.pop("Authorization", None)
        async with session.request(
            request.method,
            server + request.path_qs,
            headers={**kept, **more},
            data=await request.read() or None,
            skip_auto_headers=("Content-Type",),
            allow_redirects=False,
        ) as upstream:
            head = {k: v for k, v in upstream.headers.items() if k.lower() not in HOP_BY_HOP}
            reply = web.StreamResponse(status=upstream.status, headers=head)
            await reply.prepare(request)
            if watching:
                await self._stream(request, upstream, reply)
            else:
                await reply.write(await upstream.read())
            return reply

    async def _stream(
        self, request: web.Request, upstream: aiohttp.ClientResponse, reply: web.StreamResponse
    ) -> None:
        async def copy() -> None:
            with suppress(ConnectionError):  # its client went away
                async for chunk in upstream.content.iter_any():
                    await reply.write(chunk)

        task = asyncio.ensure_future(copy())
        self._watches.add(task)
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():  # the handler was cancelled: its client went away
                task.cancel()
                raise
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._watches.discard(task)


def _refused(fault: ProxyFault, *, watching: bool) -> web.Response | None:
    """Return the injected answer, or None if the request goes to the API server."""
    status = {ProxyFault.TOO_MANY: 429, ProxyFault.SERVER_ERROR: 500}.get(fault)
    if fault is ProxyFault.NO_WATCH and watching:
        status = 500
    if status is None:
        return None
    reason = "TooManyRequests" if status == 429 else "InternalError"
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    headers = {"Retry-After": "1"} if status == 429 else {}
    status_body = {**body, "reason": reason, "message": "injected by the fault proxy"}
    return web.json_response(status_body, status=status, headers=headers)


def _upstream(kubeconfig: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Return the API server's URL, and the TLS context and headers of the kubeconfig's user."""
    upstream = client.Configuration()
    config.load_kube_config(config_file=str(kubeconfig), client_configuration=upstream)
    context = ssl.create_default_context(cafile=upstream.ssl_ca_cert)
    if upstream.cert_file:
        context.load_cert_chain(upstream.cert_file, upstream.key_file)
    token = upstream.get_api_key_with_prefix("authorization") or upstream.get_api_key_with_prefix(
        "BearerToken"
    )
    return str(upstream.host), context, {"Authorization": token} if token else {}


async def _end_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks, such as watches, which never end on their own."""
    left = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextmanager
def fault_proxy(kubeconfig: Path) -> Iterator[FaultProxy]:
    """Run a proxy inside the context."""
    proxy = FaultProxy(kubeconfig)
    started, stop = threading.Event(), asyncio.Event()

    def run() -> None:
        asyncio.set_event_loop(proxy._loop)
        proxy._loop.run_until_complete(proxy.serve(started, stop))
        proxy._loop.run_until_complete(_end_all(proxy._loop))
        proxy._loop.close()

    thread = threading.Thread(target=run, name="fault proxy", daemon=True)
    thread.start()
    assert started.wait(20)
    try:
        yield proxy
    finally:
        proxy._loop.call_soon_threadsafe(stop.set)
        thread.join(10)
