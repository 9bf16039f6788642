"""Metrics of pools: one row per pool, rendered to text at each scrape.

prometheus_client keeps one object per series, scans all of them to drop one, and takes 20 microseconds to render a
line: with 18 series per pool, half of the operator's CPU at 1,000 pools. Here one row contains the values of all series.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from penstock_operator.decide.plan import PlanFigures

PREFIX = "penstock_operator_"
LABELS = ("namespace", "pool")
PRICED_LABELS = (*LABELS, "currency")
SERIES_WITH_VARIANTS = frozenset({"at_limit", "last_decision_timestamp_seconds", "stalled"})
"""Series of a pool with variants: the pools of its variants have the others, so that sums count each replica once."""
SERIES_UNREADABLE = frozenset({"stalled"})
"""Series of a pool whose spec is unreadable: nothing is decided on it."""


@dataclass(slots=True)
class PoolRow:
    """The metric values of one pool."""

    last_decision: float
    """Time in Unix seconds."""
    ready: int
    unacknowledged: int
    """Ready pods that have not acknowledged the published limits."""
    figures: PlanFigures
    reversals: float = 0.0
    good: float = 0.0
    requests: float = 0.0
    rising: bool | None = None
    """Whether the granted count last increased; None before its first change."""
    exported: frozenset[str] | None = None
    """Names of the pool's series; None: all."""


Read = Callable[[PoolRow], float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One series per pool, absent while its value is unknown."""

    name: str
    text: str
    read: Read
    counts: bool = False
    """True for a counter, False for a gauge."""
    labels: tuple[str, ...] = LABELS
    """PRICED_LABELS for an amount of money."""

    def value(self, row: PoolRow) -> float | None:
        """Return the value of a pool; None without one."""
        exported = row.exported is None or self.name in row.exported
        return self.read(row) if exported else None


def _per_hour(row: PoolRow) -> float | None:
    cost = row.figures.cost
    return None if cost is None or cost.per_hour is None else float(cost.per_hour)


def _batch_work_per_hour(row: PoolRow) -> float | None:
    cost = row.figures.cost
    return (
        None
        if cost is None or cost.batch_work_per_hour is None
        else float(cost.batch_work_per_hour)
    )


SERIES: tuple[Series, ...] = (
    Series("last_decision_timestamp_seconds", "Time of the last decision about a pool.",
           lambda row: row.last_decision),
    Series("unacknowledged_pods", "Ready pods that have not acknowledged the published limits.",
           lambda row: row.unacknowledged),
    Series("replicas_ready", "Replicas that are Ready.", lambda row: row.ready),
    Series("replicas_wanted", "Replicas that the control law requests.", lambda row: row.figures.desired),
    Series("replicas_granted", "Replicas that the Deployment requests.",
           lambda row: row.figures.granted),
    Series("at_limit", "1 while a bound, a budget or the cluster limits the replicas of a pool.",
           lambda row: row.figures.at_limit),
    Series("signals_absent", "1 while Ready pods have no signals.",
           lambda row: row.figures.signals_absent),
    Series("stalled", "1 while the pool cannot reach its spec without help (condition Stalled).",
           lambda row: row.figures.stalled),
    Series("replicas_contested", "1 while another writer keeps changing the replica count.",
           lambda row: row.figures.contested),
    Series("demand_rows_per_second", "Rows received, including rejected ones.",
           lambda row: row.figures.demand),
    Series("forecast_rows_per_second",
           "Rows forecast for when a replica requested now would serve, with headroom.",
           lambda row: row.figures.forecast),
    Series("forecast_error_rows_per_second",
           "Rows received, minus the forecast for now that was made one start-up ago.",
           lambda row: row.figures.forecast_error),
    Series("effective_utilization_ratio", "Demand over the capacity of the Ready pods.",
           lambda row: row.figures.utilization),
    Series("imbalance_ratio", "Demand of the busiest pod divided by the mean; absent without demand.",
           lambda row: row.figures.imbalance),
    Series("startup_p90_seconds", "Start-up time of a replica, from binding to Ready.",
           lambda row: row.figures.startup_seconds),
    Series("signal_age_seconds", "Age of the oldest sample used.",
           lambda row: row.figures.signal_age_seconds),
    Series("reversals_total", "Reversals of the granted count: up after down, or down after up.",
           lambda row: row.reversals, counts=True),
    Series("objective_good_total",
           "Requests completed within every objective of the pool; all completed ones if it has none. Lateness under"
           " an objective of a lower percent than the strictest counts in proportion.",
           lambda row: row.good, counts=True),
    Series("objective_target_ratio",
           "Share of requests that the strictest objective of the pool requires to be on time.",
           lambda row: row.figures.objective_target),
    Series("objective_requests_total",
           "Requests that ended with any outcome or were rejected for lack of capacity, excluding client errors and batch work.",
           lambda row: row.requests, counts=True),
    Series("cost_per_hour", "Price of an hour of all bound pods, while it is known.",
           _per_hour, labels=PRICED_LABELS),
    Series("cost_batch_work_per_hour",
           "Share of batch work in the price of an hour, by the rows or generated tokens of the last 10 minutes.",
           _batch_work_per_hour, labels=PRICED_LABELS),
    Series("cost_unknown", "1 while a policy has prices for the pool and its cost is unknown.",
           lambda row: None if row.figures.cost is None else row.figures.cost.per_hour is None),
)  # fmt: skip


@dataclass(slots=True, eq=False)
class PoolTable(Collector):
    """The rows of all pools, by namespace and name."""

    rows: dict[tuple[str, str], PoolRow] = field(default_factory=dict)

    def forget(self, namespace: str, pool: str) -> None:
        """Drop the row of a pool."""
        self.rows.pop((namespace, pool), None)

    def text(self) -> str:
        """Return all series in the Prometheus text format; names of namespaces and pools need no escaping."""
        rows = tuple(self.rows.items())
        by_labels: dict[tuple[str, ...], list[tuple[str, PoolRow]]] = {
            labels: [
                (_label_text(labels, _label_values(labels, key, row)), row) for key, row in rows
            ]
            for labels in (LABELS, PRICED_LABELS)
        }
        return "".join(_lines(series, by_labels[series.labels]) for series in SERIES)

    @override
    def collect(self) -> Iterator[Metric]:
        for series in SERIES:
            family = (CounterMetricFamily if series.counts else GaugeMetricFamily)(
                PREFIX + series.name, series.text, labels=series.labels
            )
            for key, row in tuple(self.rows.items()):
                if (value := series.value(row)) is not None:
                    family.add_metric(_label_values(series.labels, key, row), value)
            yield family


def _label_values(labels: Iterable[str], key: tuple[str, str], row: PoolRow) -> tuple[str, ...]:
    cost = row.figures.cost
    known = dict(zip(LABELS, key, strict=True), currency=(cost and cost.currency) or "")
    return tuple(known[label] for label in labels)


def _label_text(labels: Iterable[str], values: Iterable[str]) -> str:
    pairs = (f'{label}="{value}"' for label, value in zip(labels, values, strict=True))
    return f"{{{','.join(pairs)}}}"


def _lines(series: Series, rows: list[tuple[str, PoolRow]]) -> str:
    name = PREFIX + series.name
    kind = "counter" if series.counts else "gauge"
    lines = [
        f"{name}{labels} {float(value)!r}\n"
        for labels, row in rows
        if (value := series.value(row)) is not None
    ]
    return f"# HELP {name} {series.text}\n# TYPE {name} {kind}\n{''.join(lines)}"
