"""The two servers: clients on one port, health and metrics on the other."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from penstock_api import names
from penstock_batches.http.connections import (
    STATUS_CONNECTIONS,
    ConnectionBound,
    CountedConnection,
    Handler,
)
from penstock_batches.http.errors import json_response, openai_errors

KEEP_ALIVE_SECONDS: Final = 75.0
SHUTDOWN_SECONDS: Final = 5.0
"""Time that requests have to end when the service stops."""


def client_app(add_routes: list[Callable[[web.Application], None]]) -> web.Application:
    """Return the application of clients."""
    app = web.Application(middlewares=[openai_errors])
    for add in add_routes:
        add(app)
    return app


def status_app(
    registry: CollectorRegistry, ready: Callable[[], bool], status: Callable[[], object]
) -> web.Application:
    """Return the application of `/healthz`, `/readyz`, `/status` and `/metrics`."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="the store is not open, or no API keys were read, yet")

    async def show(_: web.Request) -> web.Response:
        return json_response(status())

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app = web.Application(middlewares=[_closing])
    app.router.add_get(names.PATH_HEALTHZ, healthz)
    app.router.add_get(names.PATH_READYZ, readyz)
    app.router.add_get("/status", show)
    app.router.add_get(names.PATH_METRICS, metrics)
    return app


@asynccontextmanager
async def listening(
    app: web.Application, host: str, port: int, most: int = STATUS_CONNECTIONS
) -> AsyncIterator[int]:
    """Serve `app` on at most so many connections, and yield its port."""
    bound = ConnectionBound(most)
    app.middlewares.insert(0, bound.note_request)
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    accept = runner.server
    assert accept is not None  # noqa: S101  `setup` has run
    try:
        server = await asyncio.get_running_loop().create_server(
            lambda: CountedConnection(accept(), bound), host, port
        )
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
    finally:
        await runner.cleanup()


@web.middleware
async def _closing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Close the connection after the response: one that idles takes the place of a probe."""
    response = await handler(request)
    response.force_close()
    return response
