"""Clients that count each request until it has exactly one answer, and the right one."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override

from tests.bench.losses.pod import answer

PATH: Final = b"/v1/completions"
REQUEST_SECONDS: Final = 60.0
PADDING: Final = 200
"""Digits of a small body; each `LARGE_EVERY`th has `LARGE_PADDING`."""
LARGE_EVERY, LARGE_PADDING = 50, 200_000
MAX_NOTES: Final = 100
PAUSE_SECONDS: Final = 0.1
"""Pause of a client whose request was lost, or that sends one again."""
Target = Callable[[], tuple[str, int]]


@dataclass(slots=True)
class Notes:
    """A count, with the first `MAX_NOTES` of what was counted."""

    total: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Count one."""
        self.total += 1
        if len(self.examples) < MAX_NOTES:
            self.examples.append(text)


@dataclass(slots=True)
class Tally:
    """What became of the requests."""

    right: int = 0
    lost: Notes = field(default_factory=Notes)
    """Requests without an answer of status 200, with what came instead and when."""
    wrong: Notes = field(default_factory=Notes)
    twice: Notes = field(default_factory=Notes)
    """Bytes that came after an answer."""
    sent_again: int = 0
    """Times that clients sent a request again since the Envoy that had it was killed."""
    latencies: list[float] = field(default_factory=list)
    """Seconds, of every tenth request."""

    @property
    def failures(self) -> list[str]:
        """Everything that must not be."""
        return [*self.lost.examples, *self.wrong.examples, *self.twice.examples]


class _Connection(asyncio.Protocol):
    """A connection with at most one request on it."""

    def __init__(self, tally: Tally, address: str) -> None:
        self.address = address
        self._tally = tally
        self._data = b""
        self._waiting: asyncio.Future[tuple[bytes, bytes]] | None = None
        self.transport: asyncio.WriteTransport | None = None
        self.usable = True

    def send(self, data: bytes) -> "asyncio.Future[tuple[bytes, bytes]]":
        """Send a request; the future has head and body of its answer."""
        assert self.transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return self._waiting

    def close(self) -> None:
        """Close the connection."""
        self.usable = False
        if self.transport is not None:
            self.transport.close()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError(f"closed: {exc}"))

    @override
    def data_received(self, data: bytes) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            self._tally.twice.add(f"{data[:80]!r} came after an answer")
            self.close()
            return
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end:
            return
        fields = head.lower()
        known = _body(fields, body)
        if known is None:
            return
        self._data = b""
        own, rest = known
        if rest:
            self._tally.twice.add(f"{rest[:80]!r} came after an answer")
        self.usable = b"connection: close" not in fields
        waiting.set_result((head, own))


def _body(fields: bytes, data: bytes) -> tuple[bytes, bytes] | None:
    """Return an answer's body, of a length or of one chunk, and what comes after it; None until it is there."""
    if b"transfer-encoding: chunked" in fields:
        chunk, end, rest = data.partition(b"0\r\n\r\n")
        return (chunk.partition(b"\r\n")[2].removesuffix(b"\r\n"), rest) if end else None
    begin = fields.index(b"content-length: ") + 16
    length = int(fields[begin:].partition(b"\r\n")[0])
    return (data[:length], data[length:]) if len(data) >= length else None


@dataclass(slots=True)
class Clients:
    """Clients that send one request after the other until `enough` of them are sent and `busy` is false."""

    target: Target
    """Address of a new connection."""
    enough: int
    busy: Callable[[], bool]
    tally: Tally = field(default_factory=Tally)
    is_down: Callable[[str], bool] = lambda _: False
    """Whether the Envoy at an address was killed: clients send again what it had."""
    _numbers: int = 0
    _begin: float = field(default_factory=time.monotonic)

    async def run(self, clients: int) -> None:
        """Send from this many clients at a time."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(self._client())

    async def _client(self) -> None:
        connection: _Connection | None = None
        while self._numbers < self.enough or self.busy():
            number, self._numbers = self._numbers, self._numbers + 1
            begin = time.monotonic()
            try:
                async with asyncio.timeout(REQUEST_SECONDS):
                    connection, head, body = await self._exchange(connection, number)
            except (OSError, TimeoutError) as error:
                self._note(self.tally.lost, number, f"{type(error).__name__} {error}")
                connection = None
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self._judge(number, head, body)
            if number % 10 == 0:
                self.tally.latencies.append(time.monotonic() - begin)
        if connection is not None:
            await asyncio.sleep(0.2)  # a second answer would come now
            connection.close()

    async def _exchange(
        self, connection: _Connection | None, number: int
    ) -> tuple[_Connection, bytes, bytes]:
        """Return the connection in use, and head and body of the answer."""
        while True:
            address, port = self.target()
            try:
                if connection is None or not connection.usable:
                    if connection is not None:
                        connection.close()
                        connection = None
                    connection = await self._connect(address, port)
                return connection, *await connection.send(_request(number))
            except OSError:
                if not self.is_down(address if connection is None else connection.address):
                    raise
            connection = None
            self.tally.sent_again += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _connect(self, address: str, port: int) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(self.tally, address), address, port
        )
        return connection

    def _judge(self, number: int, head: bytes, body: bytes) -> None:
        status = head[9:12]
        if status != b"200":
            self._note(self.tally.lost, number, f"{status.decode()} {body[:200]!r}")
        elif body != b"%d" % answer(number):
            self._note(self.tally.wrong, number, repr(body[:80]))
        else:
            self.tally.right += 1

    def _note(self, notes: Notes, number: int, what: str) -> None:
        notes.add(f"request {number} at {time.monotonic() - self._begin:.1f} s: {what}")


def _request(number: int) -> bytes:
    """Return a request of the OpenAI API, since routers of others route no other, with the number as its prompt."""
    padding = LARGE_PADDING if number % LARGE_EVERY == 0 else PADDING
    body = b'{"model": "demo", "prompt": "%b"}' % (b"%d" % number).rjust(padding)
    head = b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n" % PATH
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
