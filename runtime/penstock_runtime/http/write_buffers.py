"""Answers that lie unread in the buffers of connections: counted as memory, and not kept for ever.

A transport says by `pause_writing` that more lies with it than the 64 KiB (512 over TLS) that every connection may have; small answers,
which the socket takes at once, never come here. What lies counts among the bytes that requests take, so that newcomers are
refused rather than memory exceeded; but it may have a share only, so that who does not read holds nobody out: beyond it the
connection whose answer has lain longest is cut off. So is one that was given `read_seconds`, also if it is only being closed.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web
from msgspec import Struct

from penstock_runtime.http.connection_limit import BoundedConnection


class _Buffered(Struct):
    """What lies with one connection."""

    transport: asyncio.Transport
    bytes: int
    patience: asyncio.TimerHandle


class WriteBufferLimits:
    """Owns what lies unread by connection, the longest first."""

    def __init__(
        self,
        hold: Callable[[int], None],
        max_bytes: int,
        read_seconds: float,
        call_later: Callable[..., asyncio.TimerHandle],
    ) -> None:
        """`hold` is told how many bytes more lie unread, or fewer; `max_bytes` may, or one answer that is larger."""
        self._hold = hold
        self._max_bytes = max_bytes
        self._read_seconds = read_seconds
        self._call_later = call_later
        self._lying: dict[object, _Buffered] = {}
        self._bytes = 0

    def add(self, connection: object, transport: asyncio.Transport) -> None:
        """Count what lies with `connection`, which does not grow, until it is forgotten."""
        size = transport.get_write_buffer_size()
        if size == 0 or connection in self._lying:
            return
        patience = self._call_later(self._read_seconds, self._cut_off, connection)
        self._lying[connection] = _Buffered(transport, size, patience)
        self._count(size)
        while self._bytes > self._max_bytes and len(self._lying) > 1:
            self._cut_off(next(iter(self._lying)))

    def forget(self, connection: object) -> None:
        """Count `connection` no longer: its client has read, or is gone."""
        lying = self._lying.pop(connection, None)
        if lying is not None:
            lying.patience.cancel()
            self._count(-lying.bytes)

    def _cut_off(self, connection: object) -> None:
        transport = self._lying[connection].transport
        self.forget(connection)
        transport.abort()

    def _count(self, more: int) -> None:
        self._bytes += more
        self._hold(more)


class WatchedConnection(BoundedConnection):
    """aiohttp's protocol, for clients that are to read what they are answered."""

    __slots__ = ("_unread",)

    def __init__(self, manager: web.Server, *, unread: WriteBufferLimits, **more: Any) -> None:
        super().__init__(manager, **more)
        self._unread = unread

    def pause_writing(self) -> None:
        """As `asyncio.Protocol.pause_writing`: more lies here than the client has read."""
        super().pause_writing()
        self._note_unread(self.transport)

    def resume_writing(self) -> None:
        """As `asyncio.Protocol.resume_writing`: the client has read. One that is being closed is watched to its end."""
        super().resume_writing()
        if self.transport is not None and not self.transport.is_closing():
            self._unread.forget(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """As `asyncio.Protocol.connection_lost`."""
        super().connection_lost(exc)
        self._unread.forget(self)

    def force_close(self) -> None:
        """As aiohttp's; the transport waits until all is read."""
        transport = self.transport
        super().force_close()
        self._note_unread(transport)

    async def start(self) -> None:
        """As aiohttp's, at whose end it closes a connection that is not kept."""
        await super().start()
        self._note_unread(self.transport)

    def _note_unread(self, transport: asyncio.Transport | None) -> None:
        if transport is not None:
            self._unread.add(self, transport)
