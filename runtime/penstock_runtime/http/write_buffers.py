"""Limits on the write buffers of connections: unread answers count as memory, and are dropped after a while.

A transport reports by `pause_writing` that it buffers more than the 64 KiB (512 over TLS) that every connection may have;
small answers, which the socket takes at once, are not counted. Buffered bytes count towards the memory of requests, so that
new requests are rejected before memory runs out. They get a share of that memory only, so that clients that do not read
cannot block others: beyond the share, the connection whose answer has been buffered longest is aborted. So is a connection
whose client has read nothing for `read_seconds`, even while it is being closed; one that reads slowly is not.

Over TLS, the transport passes a long answer on to the socket's transport at once and reports nothing. Such an answer is
counted before it is written, until the client has acknowledged as many bytes.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import payload, web
from msgspec import Struct
from typing_extensions import override

from penstock_runtime.http.connection_limit import BoundedConnection

TLS_BUFFER_BYTES: Final = 2**19
"""What the transport of a connection over TLS buffers itself, and reports."""
LOOK_SECONDS: Final = 0.25
"""The interval at which the progress of a long answer over TLS is checked."""


class _Buffered(Struct):
    """The unread bytes of one connection."""

    transport: asyncio.Transport
    bytes: int
    read: int
    """The progress of its client at the last check."""
    until: int
    """The progress with which a long answer over TLS is read; 0 without one."""
    every: float
    """The interval of the checks, in seconds."""
    quiet: float
    """The time without progress, in seconds."""
    timeout: asyncio.TimerHandle

    def unread(self) -> int:
        """Return the unread bytes after the last check."""
        return self.transport.get_write_buffer_size() + max(self.until - self.read, 0)


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

    def add(self, connection: object, transport: asyncio.Transport, size: int = 0) -> None:
        """Count the write buffer of `connection`, which does not grow, until `remove`.

        `size` is that of a long answer over TLS that is written next, whose bytes count until the client has read them.
        """
        read, before = self._progress(transport), self._buffered.get(connection)
        if size and before is not None:
            size += max(before.until - read, 0)
            self.remove(connection)
        unread = transport.get_write_buffer_size() + size
        if unread == 0 or connection in self._buffered:
            return
        every = min(LOOK_SECONDS, self._read_seconds) if size else self._read_seconds
        timeout = self._call_later(every, self._check, connection)
        until = read + size if size else 0
        self._buffered[connection] = _Buffered(transport, unread, read, until, every, 0.0, timeout)
        self._change(unread)
        if self._bytes > self._max_bytes:
            self._look()
        while self._bytes > self._max_bytes and len(self._buffered) > 1:
            self._abort(next(iter(self._buffered)))

    def resume(self, connection: object) -> None:
        """Stop counting the write buffer of `connection`, which the socket has taken."""
        buffered = self._buffered.get(connection)
        if buffered is not None and not buffered.until:
            self.remove(connection)

    def remove(self, connection: object) -> None:
        """Stop counting `connection`: its client has read, or is gone."""
        buffered = self._buffered.pop(connection, None)
        if buffered is not None:
            buffered.timeout.cancel()
            self._change(-buffered.bytes)

    def _check(self, connection: object) -> None:
        """Abort `connection` if its client has read nothing for `read_seconds`."""
        buffered = self._buffered[connection]
        buffered.quiet += buffered.every
        self._update(connection, buffered)
        if buffered.quiet >= self._read_seconds:
            self._abort(connection)
        elif connection in self._buffered:
            buffered.timeout = self._call_later(buffered.every, self._check, connection)

    def _look(self) -> None:
        """Update the counts of long answers over TLS, some of which may have been read."""
        for connection, buffered in list(self._buffered.items()):
            if buffered.until:
                self._update(connection, buffered)

    def _update(self, connection: object, buffered: _Buffered) -> None:
        """Count what is unread now, and stop counting `connection` once its client has read everything."""
        read = self._progress(buffered.transport)
        if read == buffered.read:
            return
        buffered.read, buffered.quiet = read, 0.0
        unread = buffered.unread()
        self._change(unread - buffered.bytes)
        buffered.bytes = unread
        if unread == 0:
            self.remove(connection)

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
            self._write_buffers.resume(self)

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
    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write a response, counted if it is long."""
        body = resp.body if isinstance(resp, web.Response) else None
        size = body.size if isinstance(body, payload.Payload) else len(body or b"")
        self.count_answer(size or 0)
        return await super().finish_response(request, resp, start_time)

    def count_answer(self, size: int) -> None:
        """Count an answer of `size` bytes that is written next, if it is over TLS and long."""
        transport = self.transport
        if size <= TLS_BUFFER_BYTES or transport is None:
            return
        if transport.get_extra_info("sslcontext") is not None:
            self._write_buffers.add(self, transport, size)

    @override
    async def start(self) -> None:
        """Serve; at its end aiohttp closes a connection that is not kept alive."""
        await super().start()
        self._count_unread(self.transport)

    def _count_unread(self, transport: asyncio.Transport | None) -> None:
        if transport is not None:
            self._write_buffers.add(self, transport)
