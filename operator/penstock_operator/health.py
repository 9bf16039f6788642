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
"""The loop turns every second: after this long it hangs, and a restart helps."""


def application(reconciler: Reconciler) -> web.Application:
    """Return the web application."""

    async def healthz(_: web.Request) -> web.Response:
        age = time.monotonic() - reconciler.last_turn
        text = f"the loop last turned {age:.1f} s ago\n"
        return web.Response(text=text, status=200 if age < STALLED_SECONDS else 503)

    async def readyz(_: web.Request) -> web.Response:
        text = "ready\n" if reconciler.synced else "the cluster's objects are still being listed\n"
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
    """Serve on `port`, over TLS if there is a `context`; the caller cleans the runner up."""
    runner = web.AppRunner(application(reconciler), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port, ssl_context=context).start()
    return runner
