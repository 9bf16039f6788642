"""One client connection: plain requests take the fast lane, all others aiohttp's own protocol, untouched.

Bytes are looked at only while both lanes are idle, so a request is given whole to one lane or the other:

- plain and complete: answered here; what is pipelined behind it waits for the answer, as HTTP/1.1 has it;
- not plain, but its end is known and nothing follows: lent to aiohttp, and the next one is looked at again;
- anything else: the connection is aiohttp's from here to its end. So is one whose request dribbles in.
"""

import asyncio
from typing import Any, Final

from aiohttp import web

from penstock_runtime.http.connection_age import Age
from penstock_runtime.http.fast_path.exchange import Exchange, FastPath
from penstock_runtime.http.fast_path.request_head import MAX_HEAD_BYTES, RequestHead
from penstock_runtime.http.write_buffers import WatchedConnection
from penstock_runtime.protocols.common.json_structure import SMALL_BYTES

PATIENCE_SECONDS: Final = 0.25
"""For the rest of a request that came in parts; a sender that is slower is aiohttp's to time."""
MAX_COLLECTED_BYTES: Final = 2**20
"""Bytes of a body that are collected here; a larger one streams through aiohttp."""
MAX_PIPELINED_BYTES: Final = 2**16
"""Bytes that may wait behind a request before the socket is no longer read."""


class FastConnection(WatchedConnection):
    """aiohttp's protocol with a fast lane before it."""

    __slots__ = (
        "_age", "_answered", "_exchange", "_full", "_head", "_held", "_lane", "_needed", "_patience",
        "_rested", "_resting", "_seen", "_slow", "remote",
    )  # fmt: skip

    def __init__(self, manager: web.Server, *, path: FastPath, **more: Any) -> None:
        super().__init__(manager, **more)
        self._lane = path
        self._seen = b""
        """The last head that was understood; empty: none yet."""
        self._head: RequestHead
        """What `_seen` says."""
        self._slow = False
        """aiohttp's for good."""
        self._exchange: Exchange | None = None
        self._held = bytearray()
        """Of a request that is not complete, or behind the one that is being answered."""
        self._needed = 0
        """How many bytes must be held before looking again is worth it."""
        self._full = False
        """Reading is paused, because enough is held or because the client rests."""
        self._resting = False
        """Refused, and not heard for a while."""
        self._rested = True
        """Whether what is read next may have waited for the end of a rest, or for its connection to be accepted."""
        self._patience: asyncio.TimerHandle | None = None
        self._age: Age
        self.remote = ""
        self._answered: asyncio.Future[None] | None = None
        """Of a shutdown that waits for the answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As `asyncio.Protocol.connection_made`."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.remote = str(peer[0]) if isinstance(peer, tuple) else ""
        self._age = self._lane.connections.age_of(transport, self._lane.pod.now())

    def connection_lost(self, exc: BaseException | None) -> None:
        """As `asyncio.Protocol.connection_lost`: a client that goes away frees its place."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.abandon()
        self._lose_patience()
        self._held.clear()
        self._note_answered()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As `asyncio.Protocol.data_received`."""
        if self._slow or not data:
            super().data_received(data)
        elif self.surplus:
            self.reject_surplus()
        elif self._exchange is not None or self._paused or self._resting:
            self._hold(data)
        elif self._held:
            self._held += data
            if len(self._held) >= self._needed:
                self._look(self._take_held())
        else:
            self._look(data)

    def resume_writing(self) -> None:
        """As `asyncio.Protocol.resume_writing`: the client reads again, so what it pipelined is answered."""
        super().resume_writing()
        if self._held and self._exchange is None and not self._slow:
            self._loop.call_soon(self._go_on)

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - aiohttp's
        """As aiohttp's: let the request that is being answered finish."""
        if self._exchange is not None:
            self._answered = self._loop.create_future()
            await asyncio.wait([self._answered], timeout=timeout)
        await super().shutdown(timeout)

    def is_idle(self) -> bool:
        """As `BoundedConnection.is_idle`, in either lane."""
        pipelined = self._held and self._patience is None  # behind an answer, not a part of a head
        return self._exchange is None and not pipelined and super().is_idle()

    # -- which lane

    def _look(self, data: bytes) -> None:
        if (self._request_count and not self._aiohttp_idle()) or self._close or self._force_close:
            self._hand_over(data)
            return
        known = self._seen and data.startswith(self._seen)
        if not known and not self._see(data):
            return
        end, head = len(self._seen), self._head
        total = end + head.length
        plain = head.target is not None and head.length <= self._lane.max_bytes
        if len(data) < total:
            most = MAX_COLLECTED_BYTES if head.header_length is not None else SMALL_BYTES
            if plain and head.length <= most:
                self._wait_for_more(data, total)
            else:
                self._hand_over(data)
        elif plain:
            if len(data) > total:
                self._held += data[total:]
                self._needed = 0
            self._ask(head, data[end:total])
        elif len(data) == total:
            super().data_received(data)
        else:
            self._hand_over(data)

    def _see(self, data: bytes) -> bool:
        """Return whether the head of `data` is there and understood; a client then repeats it byte for byte."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4 and len(data) <= MAX_HEAD_BYTES:
            self._wait_for_more(data, 0)
            return False
        head = self._lane.heads.parse(data[:end]) if end >= 4 else None
        if head is None:
            self._hand_over(data)
            return False
        self._seen, self._head = data[:end], head
        return True

    def _ask(self, head: RequestHead, body: bytes) -> None:
        lane = self._lane
        now = lane.pod.now()
        last = self._age.count_request(now)
        is_open = lane.is_open()
        if not is_open and not last and lane.is_full() and not lane.may_displace(head, body):
            lane.reject(lane.rejections.full(now), head, self, now)
            return
        came = now
        if self._rested or not lane.arrival_clock.is_current(now):
            came = lane.arrival_clock.arrival_of(self.transport, now)
            self._rested = False
        if is_open and not last and (late := lane.too_late(head, body, came, now)) is not None:
            lane.reject(late, head, self, now)
            return
        exchange = self._exchange = Exchange(lane, head, self, came, last=last)
        self._limit.busy(self)
        if is_open:
            exchange.begin(body)
        else:
            exchange.begin_when_full(body)

    def _aiohttp_idle(self) -> bool:
        """Return whether aiohttp, which was lent a request, waits for the next."""
        waiter = self._waiter
        return (
            waiter is not None and not waiter.done() and not self._messages and not self._upgraded
        )

    def _hand_over(self, data: bytes) -> None:
        self._slow = True
        self._lose_patience()
        self._read_on()
        super().data_received(data)

    # -- what is held

    def _wait_for_more(self, data: bytes, needed: int) -> None:
        self._held += data
        self._needed = needed
        if self._patience is None:
            self._patience = self._loop.call_later(PATIENCE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._patience = None
        if self._held and self._exchange is None and not self._slow:
            self._hand_over(self._take_held())

    def _lose_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _take_held(self) -> bytes:
        data = bytes(self._held)
        self._held.clear()
        self._lose_patience()
        return data

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > MAX_PIPELINED_BYTES and self.transport is not None and not self._full:
            self._full = True
            self.transport.pause_reading()

    def _read_on(self) -> None:
        if self._full and self.transport is not None:
            self._full = False
            self.transport.resume_reading()

    def _go_on(self) -> None:
        """Look at what was pipelined, unless meanwhile the client went away or stopped reading."""
        busy = self._exchange is not None or self._resting
        if busy or self._slow or self._paused or self.transport is None:
            return
        if self._held and self._patience is None:
            self._look(self._take_held())
        collecting = self._patience is not None
        if (collecting or len(self._held) <= MAX_PIPELINED_BYTES) and not self._resting:
            self._read_on()

    # -- answering

    def answer(self, answer: bytes, *, closes: bool) -> None:
        """As `exchange.ClientConnection.answer`."""
        self._exchange = None
        self._limit.idle(self)
        if self.transport is not None:
            self.transport.write(answer)
        if self._answered is not None:
            self._note_answered()
        if closes:
            self.force_close()
            return
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._held:
            self._loop.call_soon(self._go_on)

    def throttle(self, seconds: float) -> None:
        """As `exchange.ClientConnection.throttle`: what comes meanwhile waits in the socket."""
        if self.transport is None or self._slow or self._resting:
            return
        self._resting = True
        if not self._full:
            self._full = True
            self.transport.pause_reading()
        self._lane.client_throttle.timers.set(seconds, self)

    def resume(self) -> None:
        """As `backpressure.Throttled.resume`."""
        self._resting, self._rested = False, True
        self._go_on()

    def _note_answered(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def _process_keepalive(self) -> None:
        """Do as aiohttp does, but a connection is not idle while the fast lane holds something of it."""
        if self._exchange is None and not self._held:
            super()._process_keepalive()
        elif not self._force_close:
            self._keepalive_handle = self._loop.call_later(
                self._keepalive_timeout, self._process_keepalive
            )
