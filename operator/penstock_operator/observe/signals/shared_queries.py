"""Shared Prometheus queries: one round for each server and tick serves all pools and passes.

Pools are due on a common grid and reconciled in batches. All callers within a tick share the result of the first, even
a failure; a round in flight is awaited, not repeated (single flight).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp

from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.observe.signals.credentials import Credentials, plain
from penstock_operator.observe.signals.prometheus import QueryRound, query
from penstock_operator.telemetry import metrics

SHARED_SECONDS = 4.0
"""Less than a tick, so that each tick runs its own round."""


@dataclass(slots=True)
class SharedQueries:
    """The last round of each server, with its time by the event loop's clock."""

    access: Callable[[MetricsServer], Awaitable[Credentials]] = plain
    """Returns the credentials of a server. Raises `CallFailed`."""
    _last: dict[MetricsServer, tuple[float, asyncio.Task[QueryRound]]] = field(default_factory=dict)

    async def query(self, session: aiohttp.ClientSession, server: MetricsServer) -> QueryRound:
        """Return this tick's round of a server. Raises `CallFailed`, which callers within a tick share too."""
        self._expire()
        if server not in self._last:
            metrics.PROMETHEUS_ROUNDS.labels(server.url).inc()
            task = asyncio.create_task(self._run(session, server), name="round")
            task.add_done_callback(_retrieve_error)
            self._last[server] = (asyncio.get_running_loop().time(), task)
        # shielded: cancelling one caller must not cancel the round of the others
        return await asyncio.shield(self._last[server][1])

    async def _run(self, session: aiohttp.ClientSession, server: MetricsServer) -> QueryRound:
        return await query(session, await self.access(server))

    def _expire(self) -> None:
        """Drop old rounds, because those of a large fleet use much memory."""
        now = asyncio.get_running_loop().time()
        for server, (at, task) in tuple(self._last.items()):
            if now - at >= SHARED_SECONDS and task.done():
                del self._last[server]


def _retrieve_error(task: asyncio.Task[QueryRound]) -> None:
    """Retrieve the error of a task that no caller awaits any more, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
