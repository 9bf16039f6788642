"""Limits on the write buffers of connections: unread answers count as memory, and are dropped after a while.

A transport reports by `pause_writing` that it buffers more than the 64 KiB (512 over TLS) that every connection may have;
small answers, which the socket takes at once, are not counted. Buffered bytes count towards the memory of requests, so that
new requests are rejected before memory runs out. They get a share of that memory only, so that clients that do not read
cannot block others: beyond the share, the connection whose answer has been buffered longest is aborted. So is a connection
whose client has read nothing for `read_seconds`, even while it is being closed; one that reads slowly is not.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web
from msgspec import Struct
from typing_extensions import override

from penstock_runtime.http.connection_limit import BoundedConnection


class _Buffered(Struct):
    """The unread bytes of one connection."""

    transport: asyncio.Transport
    bytes: int
    read: int
    """The progress of its client at the last check."""
    timeout: asyncio.TimerHandle


class WriteBufferLimits:
    """The unread bytes of each connection, longest buffered first."""

    def __init__(
        self,
        count: Callable[[int], None],
        max_bytes: int,
        read_seconds: float,
        call_later: Callable[..., asyncio.TimerHandle],
        progress: Callable[[asyncio.Transport], int],
    ) -> None:
        """`count` takes each change of the unread bytes; `max_bytes` bounds their sum, except for a single larger answer.

        `progress` returns a number that changes while a client reads; one that is constant makes `read_seconds` the time
        within which an answer must be read.
        """
        self._count = count
        self._max_bytes = max_bytes
        self._read_seconds = read_seconds
        self._call_later = call_later
        self._progress = progress
        self._buffered: dict[object, _Buffered] = {}
        self._bytes = 0

    @property
    def unread(self) -> bool:
        """Whether a client has still to read a part of its answer."""
        return bool(self._buffered)

    def add(self, connection: object, transport: asyncio.Transport) -> None:
        """Count the write buffer of `connection`, which does not grow, until `remove`."""
        size = transport.get_write_buffer_size()
        if size == 0 or connection in self._buffered:
            return
        timeout = self._call_later(self._read_seconds, self._check, connection)
        self._buffered[connection] = _Buffered(transport, size, self._progress(transport), timeout)
        self._change(size)
        while self._bytes > self._max_bytes and len(self._buffered) > 1:
            self._abort(next(iter(self._buffered)))

    def remove(self, connection: object) -> None:
        """Stop counting `connection`: its client has read, or is gone."""
        buffered = self._buffered.pop(connection, None)
        if buffered is not None:
            buffered.timeout.cancel()
            self._change(-buffered.bytes)

    def _check(self, connection: object) -> None:
        """Abort `connection` if its client has read nothing since the last check."""
        buffered = self._buffered[connection]
        read = self._progress(buffered.transport)
        if read == buffered.read:
            self._abort(connection)
            return
        size = buffered.transport.get_write_buffer_size()
        self._change(size - buffered.bytes)
        buffered.bytes, buffered.read = size, read
        buffered.timeout = self._call_later(self._read_seconds, self._check, connection)

    def _abort(self, connection: object) -> None:
        transport = self._buffered[connection].transport
        self.remove(connection)
        transport.abort()

    def _change(self, more_bytes: int) -> None:
        self._bytes += more_bytes
        self._count(more_bytes)


class WatchedConnection(BoundedConnection):
    """aiohttp's protocol for connections whose unread answers are limited."""

    __slots__ = ("_write_buffers",)

    def __init__(
        self, manager: web.Server, *, write_buffers: WriteBufferLimits, **more: Any
    ) -> None:
        super().__init__(manager, **more)
        self._write_buffers = write_buffers

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._count_unread(self.transport)

    @override
    def resume_writing(self) -> None:
        """Stop counting: the client has read. A connection that is being closed is counted to its end."""
        super().resume_writing()
        if self.transport is not None and not self.transport.is_closing():
            self._write_buffers.remove(self)

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._write_buffers.remove(self)

    @override
    def force_close(self) -> None:
        """Close; the transport waits until the client has read everything."""
        transport = self.transport
        super().force_close()
        self._count_unread(transport)

    @override
    async def start(self) -> None:
        """Serve; at its end aiohttp closes a connection that is not kept alive."""
        await super().start()
        self._count_unread(self.transport)

    def _count_unread(self, transport: asyncio.Transport | None) -> None:
        if transport is not None:
            self._write_buffers.add(self, transport)
