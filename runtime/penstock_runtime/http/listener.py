"""The listening socket of a port: accepts and counts connections, and backs off when descriptors run out."""

import asyncio
import errno
import logging
import socket
import ssl
from functools import partial
from typing import Any, Final

from aiohttp import web
from typing_extensions import override

from penstock_runtime.http.connection_limit import BoundedConnection, ConnectionLimit
from penstock_runtime.http.first_socket import server_socket

log = logging.getLogger(__name__)

ACCEPTS_PER_ROUND: Final = 16
"""New clients in one round of the loop: under load a round takes milliseconds, and with one accept a round, clients that
connect together would wait for as many rounds."""
RETRY_SECONDS: Final = 0.1
"""The pause after an accept that failed for lack of descriptors or memory."""
_SCARCE: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Listener(web.BaseSite):
    """An aiohttp site whose connections are limited from accept on, the TLS handshake included."""

    __slots__ = ("_accepting", "_limit", "_loop", "_per_round", "_socket")

    def __init__(
        self,
        runner: web.AppRunner,
        address: tuple[str, int],
        limit: ConnectionLimit,
        tls: ssl.SSLContext | None = None,
        accepts_per_round: int = ACCEPTS_PER_ROUND,
    ) -> None:
        """`address`: host and port, 0 for any free one."""
        super().__init__(runner, ssl_context=tls)
        self._limit = limit
        self._per_round = accepts_per_round
        self._loop = asyncio.get_running_loop()
        self._accepting: set[asyncio.Future[Any]] = set()
        self._socket = server_socket(*address)
        self._socket.setblocking(False)  # noqa: FBT003 - socket's own signature

    @property
    def port(self) -> int:
        """Return the port that is listened on."""
        return int(self._socket.getsockname()[1])

    @property
    @override
    def name(self) -> str:
        return f"{'https' if self._ssl_context else 'http'}://{self._socket.getsockname()[0]}:{self.port}"

    @override
    async def start(self) -> None:
        """Start to accept connections."""
        await super().start()
        self._listen()

    @override
    async def stop(self) -> None:
        """Close the socket and cancel unfinished handshakes."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for handshake in self._accepting:
            handshake.cancel()
        await super().stop()

    def _listen(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(self._per_round):
            try:
                client, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SCARCE:
                    raise
                self._back_off(error)
                return
            self._connect(client)

    def _back_off(self, error: OSError) -> None:
        """Stop accepting for a moment: the backlog keeps the socket readable, so the loop would spin."""
        log.warning(
            "cannot accept connections, retrying in %s s: %s", RETRY_SECONDS, error.strerror
        )
        self._limit.drop_idlest()
        self._loop.remove_reader(self._socket)
        self._loop.call_later(RETRY_SECONDS, self._listen)

    def _connect(self, client: socket.socket) -> None:
        client.setblocking(False)  # noqa: FBT003 - as above
        assert self._runner.server is not None  # noqa: S101 - `setup` has run
        connection = self._runner.server()
        assert isinstance(connection, BoundedConnection)  # noqa: S101 - `ClientsRunner` creates them
        task = asyncio.ensure_future(
            self._loop.connect_accepted_socket(lambda: connection, client, ssl=self._ssl_context)
        )
        connection.accepting = task
        self._accepting.add(task)
        task.add_done_callback(partial(self._accepted, connection, client))
        self._limit.opened(connection)

    def _accepted(
        self, connection: BoundedConnection, client: socket.socket, task: asyncio.Future[Any]
    ) -> None:
        """Release a connection whose handshake was cancelled or failed; else the transport owns the socket now."""
        self._accepting.discard(task)
        if task.cancelled():
            client.close()
        elif (error := task.exception()) is None:
            return
        elif not isinstance(error, OSError):
            log.error("defect while accepting a connection", exc_info=error)
        self._limit.closed(connection)


async def listen(
    runner: web.AppRunner,
    address: tuple[str, int],
    limit: ConnectionLimit,
    tls: ssl.SSLContext | None,
) -> int:
    """Start `runner` on a port, 0 for any free one; return the port."""
    await runner.setup()
    listener = Listener(runner, address, limit, tls)
    await listener.start()
    return listener.port
