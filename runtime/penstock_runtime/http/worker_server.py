"""`WorkerServer`: the cluster port of a worker pod, which answers probes and nothing else."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from penstock_api import names
from penstock_runtime.config import HttpConfig
from penstock_runtime.http.cluster_port import ClusterPort, healthz, wait_seconds
from penstock_runtime.http.server import errors_as_json
from penstock_runtime.serving.health import Health


class WorkerServer:
    """`/healthz` and `/readyz`, which say what the pod waits for."""

    def __init__(
        self,
        config: HttpConfig,
        name: str,
        health: Health,
        status: Callable[[], str],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`name` is that of the pod, `status` what it waits for."""
        self._config = config
        self._name = name
        self._health = health
        self._status = status
        self._tls = tls
        self._port: ClusterPort | None = None

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(middlewares=[errors_as_json])
        app.add_routes(
            [
                web.get(names.PATH_HEALTHZ, self._healthz),
                web.get(names.PATH_READYZ, self._readyz),
            ]
        )
        return app

    async def start(self) -> int:
        """Listen; return the port."""
        self._port = ClusterPort(self._config, self._name, self.app(), self._tls)
        return await self._port.start()

    async def stop(self) -> None:
        """Stop listening and close open connections."""
        if self._port is not None:
            await self._port.stop()

    async def _healthz(self, _request: web.Request) -> web.Response:
        return healthz(self._health.death, f"ok: {self._status()}")

    async def _readyz(self, request: web.Request) -> web.Response:
        """Answer 200 while the ranks of this pod are loaded and follow; `waitSeconds` is that of other pods."""
        seconds = wait_seconds(request)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._health.loaded.wait(), seconds)
        if self._health.ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text=f"{self._health.stage}: {self._status()}\n")
