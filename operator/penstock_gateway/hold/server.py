"""The HTTP server behind the hold listener: it answers when a held request is released or refused, and reads no body."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web
from typing_extensions import override

from penstock_gateway.hold import answers
from penstock_gateway.hold.holder import Holder
from penstock_gateway.hold.queue import BATCH_CLASS, LOWEST_CLASS, HeldQueue, HeldRequest, Refusal
from penstock_gateway.resources.hold import HEADER_HELD, HEADER_HELD_SINCE

HEADER_PRIORITY: Final = "X-Penstock-Priority"
HEADER_TIMEOUT: Final = "X-Request-Timeout-Ms"
READ_BYTES: Final = 2**12
"""Bodies stay with Envoy: the server reads no more than this at once, and pauses before the rest."""


class _PausedBodies(web.RequestHandler):
    """A connection that receives a few KiB at a time; asyncio's first read would take all that the socket has, some 200 KiB."""

    __slots__ = ()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # of asyncio's selector transports
        super().connection_made(transport)


class _HoldConnections(web.Server):
    """aiohttp's server with these connections."""

    @override
    def __call__(self) -> web.RequestHandler:
        return _PausedBodies(self, loop=self._loop, **self._kwargs)


class HoldServer:
    """Answers every request of the hold listener."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Hold a request until its end; only a POST is demand: a probe of readiness starts no pod."""
        pool, arrived, timeout_text = _mark(request.headers.get(HEADER_HELD, ""))
        queue, now = self._holder.queue(pool), self._holder.now()
        demand = request.method == hdrs.METH_POST
        if queue is None or (not demand and self._holder.pods_in_force(pool)):
            return answers.release(request.path)
        if not demand:
            return answers.not_serving(request.path, queue.retry_seconds(now))
        timeout = _number(timeout_text)
        arrival = HeldRequest(
            rank=_rank(request.headers.get(HEADER_PRIORITY, "")),
            arrived=self._holder.time_of(_number(arrived)),
            number=self._holder.next_number(),
            entered=self._holder.time_of(_number(request.headers.get(HEADER_HELD_SINCE, ""))),
            timeout_seconds=None if timeout is None else timeout / 1000,
        )
        reason = await self._holder.hold(pool, arrival)
        if reason is None:
            return answers.release(request.path)
        return answers.refusal(request.path, reason, *_explained(queue, reason, self._holder.now()))


@asynccontextmanager
async def holding(holder: Holder, socket: Path) -> AsyncIterator[None]:
    """Serve on `socket`, once the pools are known; asyncio replaces a stale one of a former process."""
    server = _HoldConnections(
        HoldServer(holder).handle,
        handler_cancellation=True,
        access_log=None,
        read_bufsize=READ_BYTES,
        max_field_size=2**16,
        keepalive_timeout=3600,
    )
    runner = web.ServerRunner(server, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(socket), backlog=4096).start()
        yield
    finally:
        await runner.cleanup()


def _explained(queue: HeldQueue, reason: Refusal, now: float) -> tuple[str, float]:
    """Return what a refusal says, and when to send the request again."""
    retry = queue.retry_seconds(now)
    if reason is Refusal.FULL:
        most = queue.limits.max_requests
        return f"the gateway holds {most} requests until a pod is ready: send it later", retry
    if reason is Refusal.EXPIRED:
        return f"no pod was ready within {queue.limits.max_seconds} s: send it again", retry
    if reason is Refusal.GONE:
        return "the pool was deleted: send it to another pool", retry
    return f"no pod was ready within {HEADER_TIMEOUT}: allow more time", retry


def _mark(text: str) -> tuple[str, str, str]:
    """Return pool, arrival and the client's time-out, as text."""
    pool, arrived, timeout = (*text.split(" "), "", "", "")[:3]
    return pool, arrived, timeout


def _rank(text: str) -> int:
    """Return the class that a request claims; the pods check what its key may have."""
    valid = text.isascii() and text.isdecimal() and len(text) <= 9
    return min(int(text) or LOWEST_CLASS, BATCH_CLASS) if valid else LOWEST_CLASS


def _number(text: str) -> float | None:
    """Return the positive number in a header; None without one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
