"""Metrics of the gateway's controller, computed at each scrape from its state."""

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from typing_extensions import override

from penstock_gateway.gateway import Gateway
from penstock_gateway.hold.holder import Holder
from penstock_gateway.hold.starts import BOUNDS, StartTimes
from penstock_gateway.signals import ListenerSignals

PREFIX = "penstock_gateway"


class GatewayCollector(Collector):
    """Collects from a `Gateway` and from what its Envoy counted, without the metrics by tenant, which are never parsed.

    While Envoy does not answer, the families that it counts are left out: 0 in one scrape would look like a restart, after
    which `rate()` counts the whole value again.
    """

    def __init__(self, gateway: Gateway, signals: ListenerSignals | None) -> None:
        self._gateway = gateway
        self._signals = signals

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        gateway = self._gateway
        yield _gauge("envoy_connected", "Whether Envoy is connected to ADS", gateway.connected)
        yield _gauge("ready", "Whether Envoy acknowledged a first snapshot", gateway.ready)
        endpoints = GaugeMetricFamily(f"{PREFIX}_endpoints", "Pods of a pool", labels=["pool"])
        for route in gateway.snapshot.routes.values():
            endpoints.add_metric([route.pool], len(route.endpoints))
        yield endpoints
        rejected = GaugeMetricFamily(
            f"{PREFIX}_rejected_resources",
            "Resources that Envoy rejected; the last accepted ones are in force",
            labels=["pool", "kind"],
        )
        for kind, pool in gateway.rejections():
            rejected.add_metric([pool, kind.name.title()], 1)
        yield rejected
        unroutable = GaugeMetricFamily(
            f"{PREFIX}_unroutable_services",
            "Services that lead here and cannot be routed",
            labels=["service"],
        )
        for service in gateway.snapshot.problems:
            unroutable.add_metric([service], 1)
        yield unroutable
        ages = GaugeMetricFamily(
            f"{PREFIX}_watch_age_seconds",
            "Time since the last answer of the API server",
            labels=["resource"],
        )
        for plural, age in gateway.watch_ages().items():
            if age is not None:
                ages.add_metric([plural], age)
        yield ages
        yield from _holding(gateway.holder)
        yield _starts(gateway.holder.starts)
        if self._signals is not None:
            yield from self._signals.families(gateway.snapshot.routes)


def _holding(holder: Holder) -> Iterable[Metric]:
    requests = GaugeMetricFamily(
        f"{PREFIX}_held_requests", "Requests that wait for a ready pod", labels=["pool"]
    )
    oldest = GaugeMetricFamily(
        f"{PREFIX}_held_seconds", "Time since the oldest hold of a request began", labels=["pool"]
    )
    for pool, figures in holder.held().items():
        requests.add_metric([pool], figures["requests"])
        oldest.add_metric([pool], figures["seconds"])
    ends = CounterMetricFamily(
        f"{PREFIX}_hold_ends",
        "Held requests that were released to pods, and those that were refused",
        labels=["pool", "end"],
    )
    for pool, count in holder.released.items():
        ends.add_metric([pool, "Released"], count)
    for (pool, reason), count in holder.refused.items():
        ends.add_metric([pool, reason.value], count)
    yield from (requests, oldest, ends)


def _starts(starts: StartTimes) -> Metric:
    family = HistogramMetricFamily(
        f"{PREFIX}_start_seconds",
        "Parts of starts from zero, for the first request that waited: they add up to its wait for the first byte",
        labels=["pool", "part"],
    )
    bounds = [*(repr(float(bound)) for bound in BOUNDS), "+Inf"]
    for (pool, part), durations in starts.durations.items():
        buckets = list(zip(bounds, accumulate(durations.counts), strict=True))
        family.add_metric([pool, part.value], buckets, durations.seconds)
    return family


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=float(value))
