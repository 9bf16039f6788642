"""Health, status and metrics of the gateway's controller over HTTP."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from penstock_api import names
from penstock_gateway import signals
from penstock_gateway.config import GatewaySettings
from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.errors import EnvoyUnavailable
from penstock_gateway.gateway import Gateway
from penstock_gateway.signals import ListenerSignals
from penstock_gateway.telemetry import GatewayCollector

log = logging.getLogger(__name__)

HELD_SECONDS: Final = 20.0
"""Time after which the answer to a request that waits for demand is that there is none."""


class StatusServer:
    """The routes: `/healthz`, `/readyz`, `/status`, `/held`, `/metrics` and Envoy's own at `/metrics/envoy`."""

    def __init__(self, gateway: Gateway, admin: EnvoyAdmin) -> None:
        self._gateway = gateway
        self._admin = admin
        self._scrape: asyncio.Task[str] | None = None
        """The scrape under way, which concurrent ones share."""

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/status", self._status)
        app.router.add_get(names.PATH_GATEWAY_HELD, self._held)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/metrics/envoy", self._envoy_metrics)
        return app

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        if self._gateway.ready:
            return web.Response(text="ok")
        text = "Envoy has not acknowledged a first snapshot: see /status"
        return web.Response(status=503, text=text)

    async def _status(self, _: web.Request) -> web.Response:
        return web.json_response(self._gateway.status(await self._signals(signals.COUNTS)))

    async def _held(self, request: web.Request) -> web.Response:
        """Answer with the held requests: at once if their version is another than the known one, else at its change."""
        holder = self._gateway.holder
        await holder.demanded(request.query.get("known", ""), HELD_SECONDS)
        return web.json_response({"version": holder.version, "pools": holder.held()})

    async def _metrics(self, _: web.Request) -> web.Response:
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.create_task(self._exposition())
        text = await asyncio.shield(self._scrape)  # the client that began it may leave
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _exposition(self) -> str:
        counted = await self._signals(signals.ALL)
        text = generate_latest(GatewayCollector(self._gateway, counted)).decode()
        return text if counted is None else text + counted.by_tenant()

    async def _signals(self, pattern: str) -> ListenerSignals | None:
        try:
            return await self._admin.signals(pattern)
        except EnvoyUnavailable as error:
            log.warning("no signals of Envoy: %s", error)
            return None

    async def _envoy_metrics(self, _: web.Request) -> web.Response:
        try:
            return web.Response(text=await self._admin.metrics())
        except EnvoyUnavailable as error:
            return web.Response(status=503, text=str(error))


@asynccontextmanager
async def serving(
    gateway: Gateway, admin: EnvoyAdmin, settings: GatewaySettings
) -> AsyncIterator[None]:
    """Serve the routes on the status port."""
    runner = web.AppRunner(StatusServer(gateway, admin).app(), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.status_port).start()
        yield
    finally:
        await runner.cleanup()
