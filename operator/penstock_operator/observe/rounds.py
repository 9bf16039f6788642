"""One round of questions a Prometheus a tick, however many pools there are and in however many passes they come.

Pools fall due on a common grid and are visited in batches; whoever asks a server within the tick gets what the
first one asked for, a failure too. Single-flight: a round under way is waited for, not doubled.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp

from penstock_operator import metrics
from penstock_operator.decide.metrics_server import MetricsServer
from penstock_operator.observe.access import Access, plain
from penstock_operator.observe.prometheus import Round, ask

SHARED_SECONDS = 4.0
"""Under one tick, so that no tick is served by the round of the one before."""


@dataclass(slots=True)
class Rounds:
    """The last round of each server. Times are the event loop's."""

    access: Callable[[MetricsServer], Awaitable[Access]] = plain
    """How a server is asked. Raises `CallFailed`."""
    _last: dict[MetricsServer, tuple[float, asyncio.Task[Round]]] = field(default_factory=dict)

    async def ask(self, session: aiohttp.ClientSession, server: MetricsServer) -> Round:
        """Return this tick's round of a server. Raises `CallFailed`, once a tick like everything else."""
        now = asyncio.get_running_loop().time()
        self._last = {
            known: one
            for known, one in self._last.items()
            if now - one[0] < SHARED_SECONDS or not one[1].done()
        }
        if server not in self._last:
            metrics.PROMETHEUS_ROUNDS.labels(server.url).inc()
            task = asyncio.create_task(self._round(session, server), name="round")
            task.add_done_callback(_heard)
            self._last[server] = (now, task)
        # shielded: who is cancelled must not take the round from the others
        return await asyncio.shield(self._last[server][1])

    async def _round(self, session: aiohttp.ClientSession, server: MetricsServer) -> Round:
        return await ask(session, await self.access(server))


def _heard(task: asyncio.Task[Round]) -> None:
    """Take note of a failure that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
