"""What metrics tell of each pool: one row a pool, turned into text when it is asked for.

prometheus_client keeps an object a series and looks through all of them to drop one, and its text takes 20 microseconds a
line: with eighteen series a pool, half of the operator's time at 1,000 pools (measured). A row holds what they all are read from.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock_operator.decide.plan import PlanFigures

PREFIX = "penstock_operator_"
LABELS = ("namespace", "pool")


@dataclass(slots=True)
class PoolRow:
    """What is told of one pool."""

    last_decision: float
    """Unix seconds."""
    ready: int
    unacknowledged: int
    """Ready pods that do not obey the published limits yet."""
    figures: PlanFigures
    reversals: float = 0.0
    good: float = 0.0
    requests: float = 0.0
    rising: bool | None = None
    """Whether the granted count last went up; None before it first moved."""


Read = Callable[[PoolRow], float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One series of every pool; what is not known has none."""

    name: str
    text: str
    read: Read
    counts: bool = False
    """Whether it is a counter, or else a gauge."""


SERIES: tuple[Series, ...] = (
    Series("last_decision_timestamp_seconds", "When a pool was last decided on.",
           lambda row: row.last_decision),
    Series("unacknowledged_pods", "Ready pods that do not obey the published limits yet.",
           lambda row: row.unacknowledged),
    Series("replicas_ready", "Replicas that are Ready.", lambda row: row.ready),
    Series("replicas_wanted", "Replicas that the law wants.", lambda row: row.figures.desired),
    Series("replicas_granted", "Replicas that the Deployment asks for.",
           lambda row: row.figures.granted),
    Series("at_limit", "1 while a bound, a budget or the cluster keeps replicas from a pool.",
           lambda row: row.figures.at_limit),
    Series("signals_absent", "1 while Ready pods cannot be seen.",
           lambda row: row.figures.signals_absent),
    Series("replicas_contested", "1 while another writer keeps changing the replicas.",
           lambda row: row.figures.contested),
    Series("demand_rows_per_second", "Rows received, refused ones too.",
           lambda row: row.figures.demand),
    Series("forecast_rows_per_second",
           "Rows expected when a replica asked for now would serve, with headroom.",
           lambda row: row.figures.forecast),
    Series("forecast_error_rows_per_second",
           "Rows that came, less those that were forecast for now a start-up ago.",
           lambda row: row.figures.forecast_error),
    Series("effective_utilization_ratio", "Demand over the capacity of the Ready pods.",
           lambda row: row.figures.utilization),
    Series("imbalance_ratio", "The busiest pod's demand over the mean pod's.",
           lambda row: row.figures.imbalance),
    Series("startup_p90_seconds", "Start-up of a replica, binding to Ready.",
           lambda row: row.figures.startup_seconds),
    Series("signal_age_seconds", "Age of the oldest sample used.",
           lambda row: row.figures.signal_age_seconds),
    Series("reversals_total", "Turns of the granted count: up after down, or down after up.",
           lambda row: row.reversals, counts=True),
    Series("objective_good_total",
           "Requests completed within every objective of the pool; all completed ones where it has none.",
           lambda row: row.good, counts=True),
    Series("objective_requests_total",
           "Requests that ended, however, or were refused for want of room; those that clients spoilt left out.",
           lambda row: row.requests, counts=True),
)  # fmt: skip


@dataclass(slots=True, eq=False)
class PoolTable(Collector):
    """The rows of all pools, by namespace and name."""

    rows: dict[tuple[str, str], PoolRow] = field(default_factory=dict)

    def forget(self, namespace: str, pool: str) -> None:
        """Drop a pool that is gone."""
        self.rows.pop((namespace, pool), None)

    def text(self) -> str:
        """Return all series in Prometheus' text format; names of namespaces and pools need no escaping."""
        rows = [
            (f'{{namespace="{namespace}",pool="{pool}"}}', row)
            for (namespace, pool), row in tuple(self.rows.items())
        ]
        return "".join(_lines(one, rows) for one in SERIES)

    def collect(self) -> Iterator[Metric]:
        """Yield all series as prometheus_client has them."""
        for one in SERIES:
            family = (CounterMetricFamily if one.counts else GaugeMetricFamily)(
                PREFIX + one.name, one.text, labels=LABELS
            )
            for labels, row in tuple(self.rows.items()):
                if (value := one.read(row)) is not None:
                    family.add_metric(labels, value)
            yield family


def _lines(one: Series, rows: list[tuple[str, PoolRow]]) -> str:
    name, read = PREFIX + one.name, one.read
    kind = "counter" if one.counts else "gauge"
    told = [
        f"{name}{labels} {float(value)!r}\n"
        for labels, row in rows
        if (value := read(row)) is not None
    ]
    return f"# HELP {name} {one.text}\n# TYPE {name} {kind}\n{''.join(told)}"
