"""A bound on the open connections of a port: a newcomer beyond it takes the place of the one that is idle longest.

Idle is who owes no answer: a client between two requests, one that has not sent a whole head, one in its TLS
handshake. While every connection has a request in flight a newcomer is answered 503 and closed, so that Envoy and nginx
can try another pod; left in the backlog it would wait without an answer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from penstock_runtime.errors import ConnectionsFull

MAX_SURPLUS: Final = 16
"""Connections beyond the bound that wait to be told so; their descriptors are among the reserved ones."""
MAX_LOOKS: Final = 16
"""How many connections are looked at for one that can be closed."""


class ConnectionLimit:
    """Owns which connections of a port are open, and which of them are idle, the longest first."""

    def __init__(self, most: Callable[[], int], refuse: Callable[[ConnectionsFull], bytes]) -> None:
        """`most` is read for each newcomer; `refuse` returns the answer of one that finds no place."""
        self._most = most
        self._refuse = refuse
        self._open: set[BoundedConnection] = set()
        self._idle: dict[BoundedConnection, None] = {}
        self._surplus: dict[BoundedConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._surplus)

    def opened(self, newcomer: "BoundedConnection") -> None:
        """Take in a connection that was accepted; beyond the bound the longest idle one is closed for it."""
        if len(self._open) < self._most() or self.drop_idlest():
            self._open.add(newcomer)
            self._idle[newcomer] = None
            return
        newcomer.surplus = True
        self._surplus[newcomer] = None
        if len(self._surplus) > MAX_SURPLUS:
            self._drop(next(iter(self._surplus)))

    def closed(self, connection: "BoundedConnection") -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._surplus.pop(connection, None)

    def busy(self, connection: "BoundedConnection") -> None:
        """Note that a request of `connection` is in flight."""
        self._idle.pop(connection, None)

    def idle(self, connection: "BoundedConnection") -> None:
        """Note that `connection` has its answer."""
        if connection in self._open:
            self._idle.pop(connection, None)
            self._idle[connection] = None

    def drop_idlest(self) -> bool:
        """Close the connection that is idle longest; return whether there was one."""
        for _ in range(min(len(self._idle), MAX_LOOKS)):
            connection = next(iter(self._idle))
            if connection.is_idle():
                self._drop(connection)
                return True
            self.idle(connection)  # its answer is not read yet
        return False

    def refusal(self) -> bytes:
        """Return what a connection that has no place is answered."""
        most = self._most()
        return self._refuse(
            ConnectionsFull(
                f"all {most} connections of this pod have a request in flight: try again, another pod answers",
                retry_after_seconds=1.0,
            )
        )

    def _drop(self, connection: "BoundedConnection") -> None:
        self.closed(connection)
        connection.drop()


class BoundedConnection(web.RequestHandler):
    """aiohttp's protocol, for connections that are counted."""

    __slots__ = ("_limit", "accepting", "surplus")

    def __init__(self, manager: web.Server, *, limit: ConnectionLimit, **more: Any) -> None:
        super().__init__(manager, **more)
        self._limit = limit
        self.accepting: asyncio.Future[Any] | None = None
        """Done once there is a transport: with TLS, after the handshake."""
        self.surplus = False
        """It has no place: what it asks is answered 503."""

    def drop(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self.accepting is not None:
            self.accepting.cancel()

    def is_idle(self) -> bool:
        """Return whether no answer is owed, nor lies unread."""
        if self.transport is None:  # in its handshake, or closing
            return self.accepting is not None and not self.accepting.done()
        unread = self.transport.get_write_buffer_size()
        return self._current_request is None and not self._messages and not unread

    def reject_surplus(self) -> None:
        """Answer a connection that has no place, and close it."""
        if self.transport is not None:
            self.transport.write(self._limit.refusal())
        self.force_close()

    def data_received(self, data: bytes) -> None:
        """As `asyncio.Protocol.data_received`."""
        if self.surplus:
            self.reject_surplus()
            return
        super().data_received(data)
        if self._messages or self._current_request is not None:
            self._limit.busy(self)

    async def finish_response(self, *about: Any) -> tuple[web.StreamResponse, bool]:
        """As aiohttp's: the answer is written."""
        written = await super().finish_response(*about)
        if not self._messages:
            self._limit.idle(self)
        return written

    def connection_lost(self, exc: BaseException | None) -> None:
        """As `asyncio.Protocol.connection_lost`."""
        super().connection_lost(exc)
        self._limit.closed(self)
