"""Shared Prometheus queries: one round for each server and tick serves all pools and passes.

Pools are due on a common grid and visited in batches. All callers within a tick share the result of the first, a failure
too; a round under way is awaited, not repeated (single flight). The round about the past, which a new leader runs once
for each server, is shared in the same way.
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
"""Less than a tick, so that each tick runs its own round."""
PAST_SHARED_SECONDS = 60.0
"""Time after a start in which all pools are visited first; a pool created later has no past to query."""

Rounds = dict[MetricsServer, tuple[float, asyncio.Task[QueryRound]]]


@dataclass(slots=True)
class SharedQueries:
    """The last rounds of each server, with their times by the event loop's clock."""

    access: Callable[[MetricsServer], Awaitable[Credentials]] = plain
    """Returns the credentials of a server. Raises `CallFailed`."""
    _last: Rounds = field(default_factory=dict)
    _past: Rounds = field(default_factory=dict)

    async def query(self, session: aiohttp.ClientSession, server: MetricsServer) -> QueryRound:
        """Return this tick's round of a server. Raises `CallFailed`, shared within the tick too."""
        _expire(self._last, SHARED_SECONDS)
        _expire(self._past, PAST_SHARED_SECONDS)

        async def run() -> QueryRound:
            return await query(session, await self.access(server))

        return await _shared(self._last, server, run)

    async def query_past(self, session: aiohttp.ClientSession, server: MetricsServer) -> QueryRound:
        """Return the last minutes of a server, queried once for all pools. Raises `CallFailed`."""

        async def run() -> QueryRound:
            return await query_past(session, await self.access(server))

        return await _shared(self._past, server, run)


def _expire(rounds: Rounds, seconds: float) -> None:
    """Drop old rounds, because those of a large fleet use much memory."""
    now = asyncio.get_running_loop().time()
    for server, (at, task) in tuple(rounds.items()):
        if now - at >= seconds and task.done():
            del rounds[server]


async def _shared(
    rounds: Rounds, server: MetricsServer, start: Callable[[], Coroutine[Any, Any, QueryRound]]
) -> QueryRound:
    if server not in rounds:
        metrics.PROMETHEUS_ROUNDS.labels(server.url).inc()
        task = asyncio.create_task(start(), name="round")
        task.add_done_callback(_retrieve_error)
        rounds[server] = (asyncio.get_running_loop().time(), task)
    # shielded: cancelling one caller must not cancel the round of the others
    return await asyncio.shield(rounds[server][1])


def _retrieve_error(task: asyncio.Task[QueryRound]) -> None:
    """Retrieve the error of a task that no caller awaits any more, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
