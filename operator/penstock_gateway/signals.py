"""`ListenerSignals`: what Envoy counted of each pool at its listener, read from its metrics. Pure: no I/O, no clock.

Requests count as they arrive, held and refused ones too, and each once; durations are those that clients see.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from penstock_gateway.resources.stats import (
    ANSWERS,
    DURATION,
    FIRST_BYTE,
    IN_FLIGHT,
    OFFERED,
    PREFIX,
)

_ENVOY: Final = "envoy_"
_ACTIVE: Final = "http_downstream_rq_active"
FILTER: Final = rf"^{PREFIX}\.|{IN_FLIGHT}"
"""Names of the metrics that `ListenerSignals` reads."""
_NO_TENANT: Final = "-"
_HISTOGRAMS: Final = {
    DURATION: ("request_seconds", "Duration of answered requests, as clients see it"),
    FIRST_BYTE: ("first_byte_seconds", "Time to the first byte of an answer, as clients see it"),
}


@dataclass(slots=True)
class ListenerSignals:
    """The metrics of every pool."""

    offered: dict[str, int] = field(default_factory=dict)
    """POST requests since Envoy started, by pool."""
    in_flight: dict[str, int] = field(default_factory=dict)
    """Requests of any method, streams included, by pool."""
    _answers: list[Sample] = field(default_factory=list)
    _histograms: dict[str, dict[tuple[str, str], dict[str, float]]] = field(default_factory=dict)
    """Sums and counts by bound, by pool and tenant, by histogram."""

    @classmethod
    def read(cls, text: str) -> "ListenerSignals":
        """Return the metrics in Prometheus's text format."""
        signals = cls()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                signals._take(sample)
        return signals

    def families(self, pools: Iterable[str]) -> Iterable[Metric]:
        """Yield the metrics of these pools."""
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
        answers = CounterMetricFamily(
            f"{PREFIX}_{ANSWERS}",
            "Answers to POST requests; code 0: the client left",
            labels=["pool", "tenant", "code"],
        )
        for sample in self._answers:
            answers.add_metric([*_owner(sample), sample.labels.get("code", "")], sample.value)
        yield answers
        for name, (own, text) in _HISTOGRAMS.items():
            yield _histogram(
                HistogramMetricFamily(f"{PREFIX}_{own}", text, labels=["pool", "tenant"]),
                self._histograms.get(name, {}),
            )

    def _take(self, sample: Sample) -> None:
        name, pool = sample.name.removeprefix(_ENVOY), sample.labels.get("pool", "")
        if name == _ACTIVE:
            self.in_flight[pool] = int(sample.value)
            return
        name = name.removeprefix(f"{PREFIX}_").removesuffix("_total")
        if name == OFFERED:
            self.offered[pool] = int(sample.value)
        elif name == ANSWERS:
            self._answers.append(sample)
        histogram, _, part = name.rpartition("_")
        if histogram in _HISTOGRAMS:
            counts = self._histograms.setdefault(histogram, {}).setdefault(_owner(sample), {})
            counts[sample.labels.get("le", part)] = sample.value


def _owner(sample: Sample) -> tuple[str, str]:
    tenant = sample.labels.get("tenant", _NO_TENANT)
    return sample.labels.get("pool", ""), "" if tenant == _NO_TENANT else tenant


def _by_pool(
    family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]
) -> Metric:
    for pool, value in sorted(values.items()):
        family.add_metric([pool], value)
    return family


def _histogram(
    family: HistogramMetricFamily, parts: Mapping[tuple[str, str], Mapping[str, float]]
) -> Metric:
    """Return a histogram in seconds of one in milliseconds."""
    for owner, counts in parts.items():
        buckets = [
            ("+Inf" if bound == "+Inf" else repr(float(bound) / 1000), count)
            for bound, count in counts.items()
            if bound not in ("sum", "count")
        ]
        family.add_metric(list(owner), buckets, counts.get("sum", 0.0) / 1000)
    return family
