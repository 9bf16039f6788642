"""`ConnectionBound`: a bound on the open connections of a port, and a time within which each has its first request.

A connection that sends nothing takes a descriptor, of which the probes, the store and the volume need some. Beyond the bound a new
connection replaces the one that waits longest for its first request; without one it is closed.
"""

import asyncio
import resource
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from typing_extensions import override

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
FIRST_REQUEST_SECONDS: Final = 30.0
"""Time from the accept to the end of the first request's head."""
RESERVED_DESCRIPTORS: Final = 256
"""Descriptors for the status port, the store, files of batches, and connections that are accepted in one round."""
DESCRIPTORS_PER_CLIENT: Final = 2
"""Its connection, and the file that it uploads or downloads."""
MIN_CONNECTIONS: Final = 16
MAX_CONNECTIONS: Final = 4096
STATUS_CONNECTIONS: Final = 32


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def client_connections(max_in_flight: int) -> int:
    """Return the bound on connections of clients: what the descriptors leave besides `max_in_flight` connections to a pool."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    available = (soft - RESERVED_DESCRIPTORS - max_in_flight) // DESCRIPTORS_PER_CLIENT
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, available))


class ConnectionBound:
    """The open connections of a port, and those among them without a request, the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[asyncio.Transport] = set()
        self._silent: dict[asyncio.Transport, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, transport: asyncio.Transport) -> None:
        """Add an accepted connection, or close it if there are too many with requests."""
        if len(self._open) >= self._most:
            if not self._silent:
                transport.abort()
                return
            self._drop(next(iter(self._silent)))
        self._open.add(transport)
        later = asyncio.get_running_loop().call_later
        self._silent[transport] = later(FIRST_REQUEST_SECONDS, self._drop, transport)

    def closed(self, transport: asyncio.Transport) -> None:
        """Remove a connection."""
        self._open.discard(transport)
        self._heard(transport)

    @web.middleware
    async def note_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note that a connection has sent a request."""
        if request.transport is not None:
            self._heard(request.transport)
        return await handler(request)

    def _heard(self, transport: asyncio.Transport) -> None:
        timer = self._silent.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def _drop(self, transport: asyncio.Transport) -> None:
        self.closed(transport)
        transport.abort()


class CountedConnection(asyncio.Protocol):
    """aiohttp's protocol of a connection, which a bound counts."""

    def __init__(self, inner: asyncio.Protocol, bound: ConnectionBound) -> None:
        self._inner = inner
        self._bound = bound
        self._transport: asyncio.Transport | None = None
        self.data_received = inner.data_received  # type: ignore[method-assign]
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  of a socket
        self._transport = transport
        self._inner.connection_made(transport)
        self._bound.opened(transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._bound.closed(self._transport)
        self._inner.connection_lost(exc)
