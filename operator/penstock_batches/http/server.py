"""The two servers: clients on one port, health and metrics on the other."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from penstock_api import names
from penstock_batches.http.errors import json_response, openai_errors

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

    app = web.Application()
    app.router.add_get(names.PATH_HEALTHZ, healthz)
    app.router.add_get(names.PATH_READYZ, readyz)
    app.router.add_get("/status", show)
    app.router.add_get(names.PATH_METRICS, metrics)
    return app


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve `app`, and yield its port."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
