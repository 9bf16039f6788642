"""One round of questions a Prometheus a tick, however many pools there are and in however many passes they come.

Pools fall due on a common grid and are visited in batches; whoever asks a server within the tick gets what the
first one asked for, a failure too. Single-flight: a round under way is waited for, not doubled. So it is with the one
round about the past that a new leader asks of each server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.observe.signals.credentials import Credentials, plain
from penstock_operator.observe.signals.prometheus import QueryRound, query, query_past
from penstock_operator.telemetry import metrics

SHARED_SECONDS = 4.0
"""Under one tick, so that no tick is served by the round of the one before."""
PAST_SHARED_SECONDS = 60.0
"""All pools are met in this time after a start; a pool met later has no past worth another question."""

Asked = dict[MetricsServer, tuple[float, asyncio.Task[QueryRound]]]


@dataclass(slots=True)
class SharedQueries:
    """The last round of each server. Times are the event loop's."""

    access: Callable[[MetricsServer], Awaitable[Credentials]] = plain
    """How a server is asked. Raises `CallFailed`."""
    _last: Asked = field(default_factory=dict)
    _past: Asked = field(default_factory=dict)

    async def query(self, session: aiohttp.ClientSession, server: MetricsServer) -> QueryRound:
        """Return this tick's round of a server. Raises `CallFailed`, once a tick like everything else."""
        _expire(self._last, SHARED_SECONDS)
        _expire(self._past, PAST_SHARED_SECONDS)

        async def asked() -> QueryRound:
            return await query(session, await self.access(server))

        return await _shared(self._last, server, asked)

    async def query_past(self, session: aiohttp.ClientSession, server: MetricsServer) -> QueryRound:
        """Return what a server has of the last minutes, asked once for all pools. Raises `CallFailed`."""

        async def asked() -> QueryRound:
            return await query_past(session, await self.access(server))

        return await _shared(self._past, server, asked)


def _expire(held: Asked, seconds: float) -> None:
    """Drop rounds that have served: the answer about a large fleet is large."""
    now = asyncio.get_running_loop().time()
    for server, (at, task) in tuple(held.items()):
        if now - at >= seconds and task.done():
            del held[server]


async def _shared(
    held: Asked, server: MetricsServer, make: Callable[[], Coroutine[Any, Any, QueryRound]]
) -> QueryRound:
    if server not in held:
        metrics.PROMETHEUS_ROUNDS.labels(server.url).inc()
        task = asyncio.create_task(make(), name="round")
        task.add_done_callback(_heard)
        held[server] = (asyncio.get_running_loop().time(), task)
    # shielded: who is cancelled must not take the round from the others
    return await asyncio.shield(held[server][1])


def _heard(task: asyncio.Task[QueryRound]) -> None:
    """Take note of a failure that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
