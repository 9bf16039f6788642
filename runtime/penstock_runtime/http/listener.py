"""A listening port: accepts what has come, counts it, and never spins when descriptors run out."""

import asyncio
import errno
import logging
import socket
import ssl
from functools import partial
from typing import Any, Final

from aiohttp import web

from penstock_runtime.http.connection_limit import BoundedConnection, ConnectionLimit

log = logging.getLogger(__name__)

BACKLOG: Final = 1024
ACCEPTS_PER_ROUND: Final = 16
"""New clients in one round of the loop: under load a round takes milliseconds, and clients that come together would wait
for as many rounds."""
RETRY_SECONDS: Final = 0.1
"""After an accept that found no descriptor or memory."""
_SCARCE: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Listener(web.BaseSite):
    """A site of aiohttp's whose connections are bounded from their acceptance on, the TLS handshake included."""

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
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = socket.create_server(address, family=family, backlog=BACKLOG)
        self._socket.setblocking(False)  # noqa: FBT003 - socket's own signature

    @property
    def port(self) -> int:
        """Return the port that is listened on."""
        return int(self._socket.getsockname()[1])

    @property
    def name(self) -> str:
        """As `BaseSite.name`."""
        return f"{'https' if self._ssl_context else 'http'}://{self._socket.getsockname()[0]}:{self.port}"

    async def start(self) -> None:
        """Accept from now on."""
        await super().start()
        self._listen()

    async def stop(self) -> None:
        """Accept nobody any more."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for one in self._accepting:
            one.cancel()
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
                self._rest(error)
                return
            self._greet(client)

    def _rest(self, error: OSError) -> None:
        """Accept nobody for a moment: the backlog keeps the listener readable, so the loop would spin."""
        log.warning("no connection can be accepted: %s", error.strerror)
        self._limit.drop_idlest()
        self._loop.remove_reader(self._socket)
        self._loop.call_later(RETRY_SECONDS, self._listen)

    def _greet(self, client: socket.socket) -> None:
        client.setblocking(False)  # noqa: FBT003 - as above
        assert self._runner.server is not None  # noqa: S101 - the runner is set up
        connection = self._runner.server()
        assert isinstance(connection, BoundedConnection)  # noqa: S101 - as `ClientsRunner` makes them
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
        """From here on the transport owns the socket, unless the handshake was cut short or failed."""
        self._accepting.discard(task)
        if task.cancelled():
            client.close()
        elif (error := task.exception()) is None:
            return
        elif not isinstance(error, OSError):
            log.error("a connection met a defect", exc_info=error)
        self._limit.closed(connection)
