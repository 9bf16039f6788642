"""The operator's own port: is the loop alive, has it seen the cluster, and how is it doing."""

import asyncio
import ssl
import time

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from penstock_api import names
from penstock_operator.reconciler import Reconciler
from penstock_operator.telemetry.metrics import exposition

STALLED_SECONDS = 30.0
"""The loop turns every second: after this long it hangs, and a restart is the cure."""


def application(operation: Reconciler) -> web.Application:
    """Return the web application that answers for an operation."""

    async def healthz(_: web.Request) -> web.Response:
        age = time.monotonic() - operation.beat
        text = f"the loop last turned {age:.1f} s ago\n"
        return web.Response(text=text, status=200 if age < STALLED_SECONDS else 503)

    async def readyz(_: web.Request) -> web.Response:
        text = "ready\n" if operation.ready else "the cluster's objects are still being listed\n"
        return web.Response(text=text, status=200 if operation.ready else 503)

    async def metrics(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=await asyncio.to_thread(exposition), headers=headers)

    made = web.Application()
    made.router.add_get(names.PATH_HEALTHZ, healthz)
    made.router.add_get(names.PATH_READYZ, readyz)
    made.router.add_get(names.PATH_METRICS, metrics)
    return made


async def serve(
    operation: Reconciler, port: int, context: ssl.SSLContext | None = None
) -> web.AppRunner:
    """Start answering on `port`, over TLS where there is a `context`; the caller cleans the runner up."""
    runner = web.AppRunner(application(operation), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port, ssl_context=context).start()
    return runner
