"""Fake pods on loopback: aiohttp servers on the cluster port, each with its own address."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from typing_extensions import override

from penstock_api import names
from penstock_operator.observed import PodObject


def free_address() -> str:
    """Return a random one of four million loopback addresses, which are reserved for this."""
    number = secrets.randbelow(2**22)
    return f"127.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def pod_object(
    uid: str = "uid-1",
    ip: str | None = "127.0.0.1",
    *,
    ready: bool = True,
    ready_since: float = 0.0,
) -> PodObject:
    """Return a pod of the store, Ready for a long time by default."""
    return PodObject(
        uid=uid,
        name=f"chat-{uid}",
        ip=ip,
        created=0.0,
        scheduled=True,
        unschedulable_since=None,
        ready=ready,
        ready_since=ready_since if ready else None,
        terminating=False,
        host_network=False,
        revision=None,
        problem=None,
        restarts=0,
    )


@dataclass(eq=False)
class Figures(Collector):
    """Collector of one pod's metrics with fixed values."""

    uid: str = "uid-1"
    waiting: float = 3.0
    rows: float = 100.0
    duty: Mapping[str, float] = field(default_factory=lambda: {"EngineBusyShare": 0.5})
    sums: tuple[float, ...] = (10.0, 40.0, 200.0, 0.6, 2.5, 0.04)
    by_size: tuple[tuple[str, str, float], ...] = ()
    """(size, term, value)."""
    buckets: tuple[tuple[str, float], ...] = (("0.05", 4.0), ("0.1", 10.0), ("+Inf", 10.0))

    @override
    def collect(self) -> list[Metric]:
        gauges = {
            names.METRIC_REQUESTS_WAITING: self.waiting,
            names.METRIC_REQUESTS_RUNNING: 2.0,
            names.METRIC_BATCH_CAP: 8.0,
            names.METRIC_BATCH_CAP_BOUND: 64.0,
            names.METRIC_LIMITS_GENERATION: 7.0,
        }
        counters = {
            names.METRIC_REQUESTS_RECEIVED: self.rows,
            names.METRIC_ROWS_RECEIVED: self.rows,
            names.METRIC_OUT_OF_MEMORY_SPLITS: 0.0,
            **dict(zip(names.CURVE_METRICS.values(), self.sums, strict=True)),
        }
        info = GaugeMetricFamily(names.METRIC_POD_INFO, "Info.", labels=["uid"])
        info.add_metric([self.uid], 1)
        duty = GaugeMetricFamily(names.METRIC_GPU_UTILIZATION, "Duty.", labels=["source"])
        for source, value in self.duty.items():
            duty.add_metric([source], value)
        classes = CounterMetricFamily(
            names.METRIC_CURVE_BY_SIZE, "Classes.", labels=["size", "term"]
        )
        for size, term, value in self.by_size:
            classes.add_metric([size, term], value)
        histogram = HistogramMetricFamily(names.METRIC_BATCH_DURATION, "Batches.")
        histogram.add_metric([], list(self.buckets), self.sums[3])
        return [
            *(GaugeMetricFamily(name, "A gauge.", value=value) for name, value in gauges.items()),
            *(
                CounterMetricFamily(name, "A counter.", value=value)
                for name, value in counters.items()
            ),
            info,
            duty,
            classes,
            histogram,
        ]

    def text(self) -> str:
        """Return the text of a scrape."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry).decode()


@asynccontextmanager
async def serving(
    *routes: web.RouteDef, ip: str | None = None, port: int = names.CLUSTER_PORT
) -> AsyncIterator[str]:
    """Serve the routes on an address; yield it."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    address = ip or free_address()
    await web.TCPSite(runner, address, port).start()
    try:
        yield address
    finally:
        await runner.cleanup()


def metrics_route(figures: Figures) -> web.RouteDef:
    """Return the route of a pod's `/metrics`."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=figures.text())

    return web.get(names.PATH_METRICS, answer)


async def never(_: web.Request) -> web.Response:
    """Answer after every timeout."""
    await asyncio.sleep(30)
    return web.Response()
