"""`ClusterPort`: the listening socket of port 8001, which every pod has: for probes, and for what else its application serves."""

import asyncio
import ssl
from functools import partial
from typing import Final

from aiohttp import web

from penstock_api import names
from penstock_api.pod_contract import MAX_LOAD_SECONDS
from penstock_runtime.config import HttpConfig
from penstock_runtime.errors import BadInput, RequestRejected, shown
from penstock_runtime.http import descriptors
from penstock_runtime.http.aiohttp_seam import ClientsRunner
from penstock_runtime.http.connection_limit import ConnectionLimit
from penstock_runtime.http.fast_path.response import ResponseWriter
from penstock_runtime.http.listener import listen
from penstock_runtime.http.write_buffers import WatchedConnection, WriteBufferLimits
from penstock_runtime.protocols.common.replies import of_rejection

READ_SECONDS: Final = 10.0
"""Time within which a client must read an answer."""
MAX_UNREAD_BYTES: Final = 2**23


class ClusterPort:
    """Serves one application; bounds its connections by descriptors that the client port leaves free."""

    def __init__(
        self, config: HttpConfig, pod: str, app: web.Application, tls: ssl.SSLContext | None
    ) -> None:
        """`pod` is the name of the pod; `tls` is None for plain HTTP. There must be a running event loop."""
        self._config = config
        self._pod = pod
        self._tls = tls
        self._limit = ConnectionLimit(lambda: descriptors.CLUSTER_CONNECTIONS, self._surplus_answer)
        later = asyncio.get_running_loop().call_later
        unread = WriteBufferLimits(
            lambda _bytes: None, MAX_UNREAD_BYTES, READ_SECONDS, later, lambda _client: 0
        )
        self._runner = ClientsRunner(
            app,
            partial(WatchedConnection, write_buffers=unread, limit=self._limit),
            handler_cancellation=True,
            keepalive_timeout=config.keep_alive_seconds,
            access_log=None,
            auto_decompress=False,  # as on the client port
            shutdown_timeout=1.0,
        )

    async def start(self) -> int:
        """Listen; return the port."""
        address = (self._config.host, self._config.cluster_port)
        return await listen(self._runner, address, self._limit, self._tls)

    async def stop(self) -> None:
        """Stop listening and close open connections."""
        await self._runner.cleanup()

    def _surplus_answer(self, rejection: RequestRejected) -> bytes:
        return ResponseWriter(self._pod).write(of_rejection(rejection), "", closes=True)


def healthz(death: str | None, detail: str = "ok") -> web.Response:
    """Return the answer of the liveness probe: 500 once the engine has died."""
    if death is not None:
        return web.Response(status=500, text=f"EngineDied: {death}\n")
    return web.Response(text=f"{detail}\n")


def wait_seconds(request: web.Request) -> float:
    """Return the time for which the response may wait for the model.

    Raises:
        BadInput: the parameter is not a number of seconds from 0 to `MAX_LOAD_SECONDS`.
    """
    text = request.query.get(names.QUERY_WAIT_SECONDS, "0")
    if not (text.isascii() and text.isdigit() and int(text[:9]) <= MAX_LOAD_SECONDS):
        name, limits = names.QUERY_WAIT_SECONDS, f"from 0 to {MAX_LOAD_SECONDS}"
        raise BadInput(f"{name} must be an integer {limits}, got {shown(text)}", field=name)
    return float(text)
