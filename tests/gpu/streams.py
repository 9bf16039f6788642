"""Streams of completions over HTTP, read with little work per token: status, time to first token, tokens, and the end."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter as now
from typing import cast
from urllib.parse import SplitResult, urlsplit

import uvloop

from tests.bench.generation.http import completion_request
from tests.bench.generation.workload import PromptRequest, Work

USAGE = re.compile(rb'"completion_tokens": ?(\d+)')
KEPT_BYTES = 4096
PAUSE_SECONDS = 0.1
"""Time until a rejected client sends again."""


class StreamEnd(StrEnum):
    """How a stream ended."""

    WHOLE = "whole"
    ERROR = "error event"
    REJECTED = "rejected"
    BROKEN = "connection closed early"


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream as its client saw it; times are seconds since its request."""

    status: int
    end: StreamEnd
    first: float
    """Until the first event, or the whole answer of a rejection."""
    last: float
    tokens: int

    @property
    def per_token(self) -> float:
        """Return the mean time of a token after the first."""
        return (self.last - self.first) / max(1, self.tokens - 1)


def run(
    url: str, work: Work, on_first: Callable[[], None] | None = None
) -> tuple[list[Stream], float]:
    """Send all requests at once; return the streams and the seconds until the last ended.

    `on_first` is called once every stream has its first event.
    """
    return uvloop.run(_run(urlsplit(url), work, on_first))


def overload(url: str, work: Work, seconds: float) -> list[Stream]:
    """Let each request of `work` be a client that sends again until `seconds` have passed; return the ended streams."""
    return uvloop.run(_overload(urlsplit(url), work, seconds))


async def _run(
    url: SplitResult, work: Work, on_first: Callable[[], None] | None
) -> tuple[list[Stream], float]:
    began = now()
    readers = [await _connected(url, request) for request in work.requests]
    if on_first is not None:
        await asyncio.gather(*(reader.began for reader in readers))
        on_first()
    streams = await asyncio.gather(*(reader.ended for reader in readers))
    return list(streams), now() - began


async def _overload(url: SplitResult, work: Work, seconds: float) -> list[Stream]:
    until, streams = now() + seconds, list[Stream]()

    async def client(request: PromptRequest) -> None:
        while now() < until:
            stream = await (await _connected(url, request)).ended
            streams.append(stream)
            if stream.end is StreamEnd.REJECTED:
                await asyncio.sleep(PAUSE_SECONDS)

    await asyncio.gather(*(client(request) for request in work.requests))
    return streams


async def _connected(url: SplitResult, request: PromptRequest) -> "Reader":
    reader = Reader(completion_request(url, "gpu", request.prompt, request.answer))
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: reader, url.hostname or "", url.port or 80)
    return reader


class Reader(asyncio.Protocol):
    """Reads one stream to its end."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._sent = now()
        self._first: float | None = None
        self._last = 0.0
        self._status = 0
        self._kept = b""
        """The end of the received data; usage, error and `[DONE]` are in the last events."""
        loop = asyncio.get_running_loop()
        self.began: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[Stream] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        cast("asyncio.WriteTransport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        """Note the times, and store the end of the data."""
        self._last = now() - self._sent
        self._kept = (self._kept + data)[-KEPT_BYTES:]
        if not self._status and data.startswith(b"HTTP/1.1 "):
            self._status = int(data[9:12])
        if self._first is None and b"data: " in data:
            self._first = self._last
            self.began.set_result(None)

    def connection_lost(self, _: Exception | None) -> None:
        """Resolve both futures."""
        usage = USAGE.search(self._kept)
        if self._status != 200:
            end = StreamEnd.REJECTED if self._status else StreamEnd.BROKEN
        elif b'"error"' in self._kept:
            end = StreamEnd.ERROR
        else:
            whole = usage is not None and b"[DONE]" in self._kept
            end = StreamEnd.WHOLE if whole else StreamEnd.BROKEN
        if not self.began.done():
            self.began.set_result(None)
        first = self._last if self._first is None else self._first
        tokens = int(usage[1]) if usage else 0
        self.ended.set_result(Stream(self._status, end, first, self._last, tokens))
