"""`WorkerServer`: the cluster port of a worker pod, which answers probes and nothing else."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from aiohttp import web

from penstock_api import names
from penstock_runtime.config import HttpConfig
from penstock_runtime.errors import RequestRejected
from penstock_runtime.http import descriptors
from penstock_runtime.http.aiohttp_seam import ClientsRunner
from penstock_runtime.http.connection_limit import BoundedConnection, ConnectionLimit
from penstock_runtime.http.fast_path.response import ResponseWriter
from penstock_runtime.http.server import errors_as_json, listen, wait_seconds
from penstock_runtime.protocols.common.replies import of_rejection
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
        self._runner: web.AppRunner | None = None

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
        limit = ConnectionLimit(lambda: descriptors.CLUSTER_CONNECTIONS, self._surplus_answer)
        self._runner = ClientsRunner(
            self.app(),
            partial(BoundedConnection, limit=limit),
            handler_cancellation=True,
            keepalive_timeout=self._config.keep_alive_seconds,
            access_log=None,
            shutdown_timeout=1.0,
        )
        return await listen(
            self._runner, (self._config.host, self._config.cluster_port), limit, self._tls
        )

    async def stop(self) -> None:
        """Stop listening and close open connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _surplus_answer(self, rejection: RequestRejected) -> bytes:
        return ResponseWriter(self._name).write(of_rejection(rejection), "", closes=True)

    async def _healthz(self, _request: web.Request) -> web.Response:
        if self._health.death is not None:
            return web.Response(status=500, text=f"EngineDied: {self._health.death}\n")
        return web.Response(text=f"ok: {self._status()}\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        """Answer 200 while the ranks of this pod are loaded and follow; `waitSeconds` is that of other pods."""
        seconds = wait_seconds(request)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._health.loaded.wait(), seconds)
        if self._health.ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text=f"{self._health.stage}: {self._status()}\n")
