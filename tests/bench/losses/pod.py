"""A pod that answers right or not at all, as a process: `python -m tests.bench.losses.pod ADDRESS PORT SEED ACCEPT`.

A POST with a number as its prompt is answered with `answer(number)` after up to 20 ms, and a GET, a probe of health, at once. At SIGTERM the pod goes on serving, as a runtime
does, for ACCEPT seconds at least, closes each connection with its next answer, and ends half a second after the last request.
"""

import asyncio
import random
import re
import signal
import sys
import time
from typing import Final

from typing_extensions import override

MAX_SECONDS: Final = 0.02
QUIET_SECONDS: Final = 0.5
"""Time without a request after which a pod that ends does so."""
_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
_PROMPT: Final = re.compile(rb'"prompt": *" *([0-9]+)"')


def answer(number: int) -> int:
    """Return the right answer to a request."""
    return number * 2654435761 % 2**32


class Pod:
    """The state that all connections share."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.ending = asyncio.Event()
        self.in_flight = 0
        self.last = time.monotonic()

    async def run(self, address: str, port: int, accept_seconds: float) -> None:
        """Serve until SIGTERM, then for `accept_seconds`, and then until the last request."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.ending.set)
        server = await loop.create_server(lambda: Connection(self), address, port)
        print("listening", flush=True)
        await self.ending.wait()
        await asyncio.sleep(accept_seconds)
        self.last = time.monotonic()
        while self.in_flight or time.monotonic() - self.last < QUIET_SECONDS:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        server.close()


class Connection(asyncio.Protocol):
    """A connection, with one request at a time."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._data = b""
        self._transport: asyncio.WriteTransport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(_END_OF_HEAD)
        if not end:
            return
        if head.startswith(b"GET "):
            assert self._transport is not None
            self._data = b""
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return
        begin = head.lower().index(_LENGTH) + len(_LENGTH)
        if len(body) < int(head[begin:].partition(b"\r\n")[0]):
            return
        self._data = b""
        pod = self._pod
        pod.in_flight += 1
        pod.last = time.monotonic()
        delay = pod.random.uniform(0, MAX_SECONDS)
        prompt = _PROMPT.search(body)
        assert prompt is not None
        asyncio.get_running_loop().call_later(delay, self._answer, int(prompt[1]))

    def _answer(self, number: int) -> None:
        pod, transport = self._pod, self._transport
        pod.in_flight -= 1
        assert transport is not None
        body = b"%d" % answer(number)
        closes = b"Connection: close\r\n" if pod.ending.is_set() else b""
        head = b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n" % (closes, len(body))
        transport.write(head + body)
        if closes:
            transport.close()


if __name__ == "__main__":
    asyncio.run(Pod(int(sys.argv[3])).run(sys.argv[1], int(sys.argv[2]), float(sys.argv[4])))
