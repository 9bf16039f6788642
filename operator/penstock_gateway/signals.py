"""`ListenerSignals`: what Envoy counted of each pool at its listener, read from its metrics. Pure: no I/O, no clock.

Requests count as they arrive, held and refused ones too, and each once; durations are those that clients see.
Histograms have some 70 lines for each pool and tenant, so they are rewritten line by line and never parsed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from penstock_gateway.resources.stats import (
    ANSWERS,
    DURATION,
    FIRST_BYTE,
    IN_FLIGHT,
    OFFERED,
    PREFIX,
)

COUNTS: Final = rf"^{PREFIX}\.{OFFERED}\.|{IN_FLIGHT}"
"""Names of the metrics that `offered` and `in_flight` need: two of each pool."""
ALL: Final = rf"^{PREFIX}\.|{IN_FLIGHT}"
"""Names of the metrics that `ListenerSignals` reads."""
_ACTIVE: Final = "http_downstream_rq_active"
_LINE: Final = re.compile(rf"envoy_(?:{PREFIX}_)?(\w+)\{{(.*)\}} (\S+)")
_POOL: Final = re.compile(r'(?:^|,)pool="([^"]*)"')
_NO_TENANT: Final = ('tenant="-"', 'tenant=""')
_BOUND: Final = 'le="'
_HISTOGRAMS: Final = {DURATION: "request_seconds", FIRST_BYTE: "first_byte_seconds"}


def by_tenant() -> tuple[Metric, ...]:
    """Return the metrics by pool and tenant, without their samples."""
    owner = ["pool", "tenant"]
    return (
        CounterMetricFamily(
            f"{PREFIX}_{ANSWERS}",
            "Answers to POST requests; code 0: the client left",
            labels=[*owner, "code"],
        ),
        HistogramMetricFamily(
            f"{PREFIX}_{_HISTOGRAMS[DURATION]}",
            "Duration of answered requests, as clients see it",
            labels=owner,
        ),
        HistogramMetricFamily(
            f"{PREFIX}_{_HISTOGRAMS[FIRST_BYTE]}",
            "Time to the first byte of an answer, as clients see it",
            labels=owner,
        ),
    )


@dataclass(slots=True)
class ListenerSignals:
    """The metrics of every pool."""

    offered: dict[str, int] = field(default_factory=dict)
    """POST requests since Envoy started, by pool."""
    in_flight: dict[str, int] = field(default_factory=dict)
    """Requests of any method, streams included, by pool."""
    _samples: dict[str, list[str]] = field(default_factory=dict)
    """Lines of the metrics by tenant, by the metric's name."""

    def add(self, lines: Iterable[str]) -> None:
        """Read lines in Prometheus's text format."""
        for line in lines:
            match = _LINE.match(line)
            if match is not None:
                self._take(match[1].removesuffix("_total"), match[2], match[3])

    def families(self, pools: Iterable[str]) -> Iterable[Metric]:
        """Yield the metrics of these pools that have no tenant."""
        known = frozenset(pools)
        yield _by_pool(
            CounterMetricFamily(
                f"{PREFIX}_{OFFERED}",
                "POST requests on arrival, held and refused ones too",
                labels=["pool"],
            ),
            {pool: self.offered.get(pool, 0) for pool in known},
        )
        yield _by_pool(
            GaugeMetricFamily(
                f"{PREFIX}_requests_in_flight", "Requests without a whole answer", labels=["pool"]
            ),
            {pool: self.in_flight.get(pool, 0) for pool in known},
        )

    def by_tenant(self) -> str:
        """Return the metrics by pool and tenant in Prometheus's text format."""
        lines = []
        for family in by_tenant():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            lines += [f"# HELP {name} {family.documentation}", f"# TYPE {name} {family.type}"]
            lines += self._samples.get(family.name, ())
        return "".join(f"{line}\n" for line in lines)

    def _take(self, name: str, labels: str, value: str) -> None:
        if name == OFFERED:
            self.offered[_pool(labels)] = int(float(value))
        elif name == _ACTIVE:
            self.in_flight[_pool(labels)] = int(float(value))
        elif name == ANSWERS:
            self._keep(f"{PREFIX}_{ANSWERS}", "_total", labels, value)
        else:
            histogram, _, part = name.rpartition("_")
            if histogram in _HISTOGRAMS:
                own = f"{PREFIX}_{_HISTOGRAMS[histogram]}"
                if part == "bucket":
                    owner, _, bound = labels.rpartition(_BOUND)
                    labels = f'{owner}{_BOUND}{_seconds(bound[:-1])}"'
                elif part == "sum":
                    value = _seconds(value)
                self._keep(own, f"_{part}", labels, value)

    def _keep(self, family: str, suffix: str, labels: str, value: str) -> None:
        line = f"{family}{suffix}{{{labels.replace(*_NO_TENANT)}}} {value}"
        self._samples.setdefault(family, []).append(line)


def _pool(labels: str) -> str:
    match = _POOL.search(labels)
    return match[1] if match else ""


@lru_cache(maxsize=1024)
def _seconds(milliseconds: str) -> str:
    return "+Inf" if milliseconds == "+Inf" else repr(float(milliseconds) / 1000)


def _by_pool(
    family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]
) -> Metric:
    for pool, value in sorted(values.items()):
        family.add_metric([pool], value)
    return family
