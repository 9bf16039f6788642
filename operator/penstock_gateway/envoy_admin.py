"""Envoy's admin interface, on a Unix socket."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import aiohttp

from penstock_gateway.errors import EnvoyGone, EnvoyUnavailable
from penstock_gateway.resources.stats import IN_FLIGHT, LISTENER_PREFIX
from penstock_gateway.signals import ListenerSignals

REQUEST_SECONDS: Final = 5.0
LINES_PER_TURN: Final = 1000
"""Lines of metrics that are read in one turn of the event loop, some 2 ms."""


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """Requests and endpoints of a pool's cluster."""

    requests: int
    """Sent and not ended, held ones included."""
    healthy: int
    """Endpoints that are not ejected, the hold listener included."""
    answered: int = 0
    """Answers with 2xx whose first byte was on its way to a client, since Envoy started."""


class EnvoyAdmin:
    """Calls to the admin interface; each raises `EnvoyUnavailable` if Envoy does not answer."""

    def __init__(self, socket: Path) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(socket)),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def fail_readiness(self) -> None:
        """Make the readiness listener answer 503."""
        await self._call("POST", "/healthcheck/fail")

    async def drain_listeners(self) -> None:
        """Let connections end after their requests; listeners go on accepting."""
        await self._call("POST", "/drain_listeners?graceful&skip_exit")

    async def quit(self) -> None:
        """End Envoy's process."""
        await self._call("POST", "/quitquitquit")

    async def metrics(self) -> str:
        """Return Envoy's metrics in Prometheus's text format."""
        return await self._call("GET", "/stats/prometheus?usedonly")

    async def signals(self, names: str) -> ListenerSignals:
        """Return what Envoy counted of each pool, of the metrics whose names match a regular expression."""
        text = await self._call("GET", f"/stats/prometheus?filter={quote(names)}")
        lines, signals = text.split("\n"), ListenerSignals()
        for begin in range(0, len(lines), LINES_PER_TURN):
            signals.add(lines[begin : begin + LINES_PER_TURN])
            await asyncio.sleep(0)
        return signals

    async def active_requests(self) -> int:
        """Return the number of requests in flight at the pools' listeners, streams and held ones included."""
        return sum((await self._counts(IN_FLIGHT)).values())

    async def cluster_load(self, pool: str) -> ClusterLoad:
        """Return what Envoy's cluster of a pool does now."""
        cluster, listener = f"cluster.{pool}.", f"http.{LISTENER_PREFIX}{pool}."
        names = (
            f"{cluster}upstream_rq_active",
            f"{cluster}membership_healthy",
            f"{listener}downstream_rq_2xx",
        )
        counts = await self._counts(f"^({'|'.join(map(re.escape, names))})$")
        return ClusterLoad(*(counts.get(name, 0) for name in names))

    async def _counts(self, names: str) -> dict[str, int]:
        """Return the counters and gauges whose names match a regular expression."""
        text = await self._call("GET", f"/stats?filter={quote(names)}")
        pairs = (line.rpartition(": ") for line in text.splitlines() if line)
        return {name: int(value) for name, _, value in pairs}

    async def _call(self, method: str, path: str) -> str:
        try:
            async with self._session.request(method, f"http://envoy{path}") as answer:
                answer.raise_for_status()
                return await answer.text()
        except aiohttp.ClientConnectorError as error:
            raise EnvoyGone(f"{method} {path}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EnvoyUnavailable(f"{method} {path}: {type(error).__name__}: {error}") from error
