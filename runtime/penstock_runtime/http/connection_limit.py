"""A bound on the open connections of a port: beyond it, a new connection replaces the one that is idle longest.

A connection is idle while it owes no answer: between two requests, before a whole head, or in its TLS handshake. While
every connection has a request in flight, a new one is answered 503 and closed, so that Envoy and nginx can try another
pod; in the backlog it would wait without an answer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from typing_extensions import override

from penstock_runtime.errors import ConnectionsFull
from penstock_runtime.http.aiohttp_seam import AiohttpConnection

MAX_SURPLUS: Final = 16
"""Connections beyond the bound that wait for their 503; their descriptors are among the reserved ones."""
MAX_IDLE_CHECKS: Final = 16
"""Connections that one search for an idle one checks."""


class ConnectionLimit:
    """The open connections of a port, and the idle ones among them, longest idle first."""

    def __init__(
        self, max_open: Callable[[], int], render: Callable[[ConnectionsFull], bytes]
    ) -> None:
        """`max_open` is called for each new connection; `render` writes the answer to a surplus one."""
        self._max_open = max_open
        self._render = render
        self._open: set[BoundedConnection] = set()
        self._idle: dict[BoundedConnection, None] = {}
        self._surplus: dict[BoundedConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._surplus)

    def opened(self, newcomer: "BoundedConnection") -> None:
        """Add an accepted connection; beyond the bound, close the longest idle one for it or mark it as surplus."""
        if len(self._open) < self._max_open() or self.drop_idlest():
            self._open.add(newcomer)
            self._idle[newcomer] = None
            return
        newcomer.surplus = True
        self._surplus[newcomer] = None
        if len(self._surplus) > MAX_SURPLUS:
            self._drop(next(iter(self._surplus)))

    def closed(self, connection: "BoundedConnection") -> None:
        """Remove a connection."""
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._surplus.pop(connection, None)

    def busy(self, connection: "BoundedConnection") -> None:
        """Mark `connection` as having a request in flight."""
        self._idle.pop(connection, None)

    def idle(self, connection: "BoundedConnection") -> None:
        """Mark `connection` as idle: its answer is written."""
        if connection in self._open:
            self._idle.pop(connection, None)
            self._idle[connection] = None

    def drop_idlest(self) -> bool:
        """Close the connection that is idle longest; return whether there was one."""
        for _ in range(min(len(self._idle), MAX_IDLE_CHECKS)):
            connection = next(iter(self._idle))
            if connection.is_idle():
                self._drop(connection)
                return True
            self.idle(connection)  # its client has not read the answer yet
        return False

    def rejection(self) -> bytes:
        """Return the response to a connection above the limit."""
        return self._render(
            ConnectionsFull(
                f"all {self._max_open()} connections of this pod have a request in flight: retry on another pod",
                retry_after_seconds=1.0,
            )
        )

    def _drop(self, connection: "BoundedConnection") -> None:
        self.closed(connection)
        connection.drop()


class BoundedConnection(AiohttpConnection):
    """aiohttp's protocol for connections that a `ConnectionLimit` counts."""

    __slots__ = ("_limit", "accepting", "surplus")

    def __init__(self, manager: web.Server, *, limit: ConnectionLimit, **more: Any) -> None:
        super().__init__(manager, **more)
        self._limit = limit
        self.accepting: asyncio.Future[Any] | None = None
        """Done once there is a transport; with TLS, after the handshake."""
        self.surplus = False
        """Whether it is beyond the bound, so that its first request is answered 503."""

    def drop(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self.accepting is not None:
            self.accepting.cancel()

    def is_idle(self) -> bool:
        """Return whether every request is answered and the write buffer is empty."""
        if self.transport is None:  # in its handshake, or closing
            return self.accepting is not None and not self.accepting.done()
        return not self.owes_answers() and not self.transport.get_write_buffer_size()

    def reject_surplus(self) -> None:
        """Answer a surplus connection and close it."""
        if self.transport is not None:
            self.transport.write(self._limit.rejection())
        self.force_close()

    @override
    def data_received(self, data: bytes) -> None:
        if self.surplus:
            self.reject_surplus()
            return
        super().data_received(data)
        if self.owes_answers():
            self._limit.busy(self)

    @override
    async def finish_response(self, *arguments: Any) -> tuple[web.StreamResponse, bool]:
        written = await super().finish_response(*arguments)
        if not self.has_pipelined_requests():
            self._limit.idle(self)
        return written

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._limit.closed(self)
