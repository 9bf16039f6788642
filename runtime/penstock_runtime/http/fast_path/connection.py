"""One client connection: plain requests take the fast path, all others aiohttp's own protocol, untouched.

A connection parses bytes itself only while no request is in progress on either path, so that each request goes to one path
as a whole:

- a plain and complete request is answered here; requests pipelined after it wait for the answer, as in HTTP/1.1;
- another request whose end is known, with nothing after it, is lent to aiohttp, and the next one is parsed here again;
- anything else hands the connection over to aiohttp until its end, and so does a request that arrives too slowly.
"""

import asyncio
from enum import Enum, auto
from typing import Any, Final

from aiohttp import web
from typing_extensions import override

from penstock_runtime.http.connection_age import Age
from penstock_runtime.http.fast_path.exchange import Exchange, FastPath
from penstock_runtime.http.fast_path.receive_buffer import ReceiveBuffer
from penstock_runtime.http.fast_path.request_head import MAX_HEAD_BYTES, RequestHead, hinted_class
from penstock_runtime.http.write_buffers import WatchedConnection

COLLECT_SECONDS: Final = 0.25
"""The time for the rest of a request that arrives in parts; aiohttp times slower senders."""
MAX_COLLECTED_BYTES: Final = 2**20
"""The largest body that is collected here; a larger one streams through aiohttp."""


class ConnectionState(Enum):
    """The state of a connection on the fast path.

    IDLE leads to every other state, COLLECTING to IDLE or HANDED_OVER, ANSWERING and THROTTLED to IDLE, HANDED_OVER to
    nothing. The end of a connection leads to CLOSED from every state.
    """

    IDLE = auto()
    """No request is in progress here. aiohttp may serve one that was lent, and pipelined bytes may wait for their turn."""
    COLLECTING = auto()
    """The buffer holds the first part of a request, and a timer runs."""
    ANSWERING = auto()
    """An exchange is in progress; bytes that arrive are buffered."""
    THROTTLED = auto()
    """A request was rejected, and the socket is not read until the throttle ends."""
    HANDED_OVER = auto()
    """aiohttp serves the connection until its end."""
    CLOSED = auto()
    """The connection is lost."""


IDLE, COLLECTING, ANSWERING, THROTTLED, HANDED_OVER, CLOSED = ConnectionState


class FastConnection(WatchedConnection):
    """aiohttp's protocol with the fast path before it."""

    __slots__ = (
        "_age", "_answered", "_arrival_uncertain", "_buffer", "_collect_timer", "_collect_until", "_exchange", "_head",
        "_head_bytes", "_path", "_soon", "_state", "remote",
    )  # fmt: skip

    def __init__(
        self, manager: web.Server, *, path: FastPath, loop: asyncio.AbstractEventLoop, **more: Any
    ) -> None:
        super().__init__(manager, loop=loop, **more)
        self._path = path
        self._soon = loop.call_soon
        self._state = IDLE
        self._head_bytes = b""
        """The last parsed head; empty before the first."""
        self._head: RequestHead
        """The parsed `_head_bytes`."""
        self._exchange: Exchange | None = None
        """The exchange in progress; None unless ANSWERING."""
        self._buffer = ReceiveBuffer()
        """The first part of a request while COLLECTING, else pipelined bytes."""
        self._collect_timer: asyncio.TimerHandle | None = None
        """Hands the connection over; None unless COLLECTING."""
        self._collect_until: float | None = None
        """When COLLECTING ends, counted from the first part of its request; None between requests."""
        self._arrival_uncertain = True
        """Whether the next request may have waited in the socket, for the end of a throttle or for its accept."""
        self._age: Age
        self.remote = ""
        self._answered: asyncio.Future[None] | None = None
        """Set by a shutdown that waits for the answer."""

    def _enter(self, state: ConnectionState) -> None:
        """Change the state; the timer of COLLECTING starts and ends with it."""
        if self._collect_timer is not None:
            self._collect_timer.cancel()
            self._collect_timer = None
        self._state = state
        if state is COLLECTING:
            loop = asyncio.get_running_loop()
            if self._collect_until is None:
                self._collect_until = loop.time() + COLLECT_SECONDS
            self._collect_timer = loop.call_at(self._collect_until, self._stop_collecting)

    # -- asyncio's and aiohttp's calls

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.remote = str(peer[0]) if isinstance(peer, tuple) else ""
        self._age = self._path.connections.age_of(transport, self._path.pod.now())

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        """Free the slot of a request whose client has disconnected."""
        exchange, self._exchange = self._exchange, None
        self._enter(CLOSED)
        if exchange is not None:
            exchange.abandon()
        self._buffer.take()
        self._release_shutdown()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        state = self._state
        if state is HANDED_OVER or not data:
            super().data_received(data)
        elif self.surplus:
            self.reject_surplus()
        elif state is ANSWERING or state is THROTTLED or self.writing_paused:
            self._buffer.hold(data, self.transport)
        elif state is COLLECTING:
            buffer = self._buffer
            buffer.data += data
            if len(buffer.data) >= buffer.needed:
                self._dispatch(self._take_buffer())
                if self._state is not COLLECTING:
                    self._collect_until = None
        elif self._buffer.data:
            self._buffer.data += data
            self._dispatch(self._take_buffer())
        else:
            self._dispatch(data)

    @override
    def resume_writing(self) -> None:
        """Answer what the client pipelined: it reads again."""
        super().resume_writing()
        if self._buffer.data:
            self._soon(self._continue)

    @override
    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Close the connection once the request in progress is answered."""
        if self._state is ANSWERING:
            self._answered = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._answered], timeout=timeout)
        await super().shutdown(timeout)

    @override
    def is_idle(self) -> bool:
        """Return whether every request on either path is answered and the write buffer is empty."""
        pipelined = self._buffer.data and self._state is not COLLECTING
        return self._state is not ANSWERING and not pipelined and super().is_idle()

    @override
    def is_bypassed(self) -> bool:
        """Return whether the fast path has bytes or a request of this connection."""
        return self._state is ANSWERING or bool(self._buffer.data)

    # -- the choice of the path

    def _dispatch(self, data: bytes) -> None:
        """Answer, collect, lend or hand over the request at the start of `data`. The state is IDLE."""
        if not self.may_bypass():
            self._hand_over(data)
            return
        repeated = self._head_bytes and data.startswith(self._head_bytes)
        if not repeated and not self._parse_head(data):
            return
        start, head = len(self._head_bytes), self._head
        end = start + head.length
        plain = head.target is not None and head.length <= self._path.max_bytes
        if len(data) < end:
            if plain and head.length <= MAX_COLLECTED_BYTES:
                self._collect(data, end)
            else:
                self._hand_over(data)
        elif plain:
            if len(data) > end:
                self._buffer.data += data[end:]
            self._serve(head, data[start:end])
        elif len(data) == end:
            super().data_received(data)
        else:
            self._hand_over(data)

    def _parse_head(self, data: bytes) -> bool:
        """Return whether `data` has a whole head that is understood; a client repeats it byte for byte."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4 and len(data) <= MAX_HEAD_BYTES:
            self._collect(data, 0)
            return False
        head = self._path.heads.parse(data[:end]) if end >= 4 else None
        if head is None:
            self._hand_over(data)
            return False
        self._head_bytes, self._head = data[:end], head
        return True

    def _serve(self, head: RequestHead, body: bytes) -> None:
        """Begin the exchange of a plain request, or reject the request by its head."""
        path = self._path
        now = path.pod.now()
        last = not head.balanced and self._age.count_request(now)
        is_open = path.is_open()
        if not is_open and not last and path.is_full():
            priority = hinted_class(body, head.header_length)
            if not path.may_displace(priority):
                path.reject(path.rejections.full(now), priority, head, self, now)
                return
        arrived = now
        if self._arrival_uncertain or not path.arrival_clock.is_current(now):
            arrived = path.arrival_clock.arrival_of(self.transport, now)
            self._arrival_uncertain = False
        if is_open and not last and (late := path.too_late(head, body, arrived, now)) is not None:
            path.reject(late, hinted_class(body, head.header_length), head, self, now)
            return
        self._enter(ANSWERING)
        exchange = self._exchange = Exchange(path, head, self, arrived, last=last)
        self._limit.busy(self)
        if is_open:
            exchange.begin(body)
        else:
            exchange.begin_when_full(body)

    def _hand_over(self, data: bytes) -> None:
        self._enter(HANDED_OVER)
        self._buffer.read_on(self.transport)
        super().data_received(data)

    # -- the buffer

    def _collect(self, data: bytes, needed: int) -> None:
        self._buffer.data += data
        self._buffer.needed = needed
        self._enter(COLLECTING)

    def _stop_collecting(self) -> None:
        """Hand over a request whose rest has not arrived in time."""
        self._hand_over(self._take_buffer())

    def _take_buffer(self) -> bytes:
        self._enter(IDLE)
        return self._buffer.take()

    def _continue(self) -> None:
        """Dispatch pipelined bytes and read on, unless the client has left or stopped reading meanwhile."""
        if self._state not in (IDLE, COLLECTING) or self.writing_paused or self.transport is None:
            return
        buffer = self._buffer
        if buffer.data and self._state is IDLE:
            self._dispatch(self._take_buffer())
        state = self._state
        if state is COLLECTING or (buffer.is_short() and state is not THROTTLED):
            buffer.read_on(self.transport)

    # -- an exchange's calls

    def answer(self, answer: bytes, *, closes: bool) -> None:
        """Write the answer to the request in progress; with `closes` it is the connection's last."""
        self._exchange = None
        self._enter(IDLE)
        self._limit.idle(self)
        if self.transport is not None:
            self.count_answer(len(answer))
            self.transport.write(answer)
        if self._answered is not None:
            self._release_shutdown()
        if closes:
            self.force_close()
            return
        self.restart_keepalive()
        if self._buffer.is_waiting():
            self._soon(self._continue)

    def throttle(self, seconds: float) -> None:
        """Stop reading for `seconds`; the next requests wait in the socket."""
        if self.transport is None or self._state is not IDLE:
            return
        self._enter(THROTTLED)
        self._buffer.stop_reading(self.transport)
        self._path.client_throttle.timers.set(seconds, self)

    def resume(self) -> None:
        """Read again: the throttle has ended."""
        if self._state is THROTTLED:
            self._enter(IDLE)
            self._arrival_uncertain = True
            self._continue()

    def _release_shutdown(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)
