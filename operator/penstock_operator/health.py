"""HTTP endpoints of the operator's own port: liveness, readiness and metrics."""

import asyncio
import ssl
import time

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from penstock_api import names
from penstock_operator.reconciler.loop import Reconciler
from penstock_operator.telemetry.metrics import exposition

STALLED_SECONDS = 30.0
"""Age of the last loop iteration at which liveness fails; the loop iterates every second."""


def application(reconciler: Reconciler) -> web.Application:
    """Return the web application."""

    async def healthz(_: web.Request) -> web.Response:
        age = time.monotonic() - reconciler.last_turn
        text = f"last loop iteration {age:.1f} s ago\n"
        return web.Response(text=text, status=200 if age < STALLED_SECONDS else 503)

    async def readyz(_: web.Request) -> web.Response:
        text = (
            "ready\n"
            if reconciler.synced
            else "the initial list of the cluster's objects is not complete\n"
        )
        return web.Response(text=text, status=200 if reconciler.synced else 503)

    async def metrics(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=await asyncio.to_thread(exposition), headers=headers)

    app = web.Application()
    app.router.add_get(names.PATH_HEALTHZ, healthz)
    app.router.add_get(names.PATH_READYZ, readyz)
    app.router.add_get(names.PATH_METRICS, metrics)
    return app


async def serve(
    reconciler: Reconciler, port: int, context: ssl.SSLContext | None = None
) -> web.AppRunner:
    """Serve on `port`, over TLS if there is a `context`; the caller cleans up the runner."""
    runner = web.AppRunner(application(reconciler), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port, ssl_context=context).start()
    return runner
