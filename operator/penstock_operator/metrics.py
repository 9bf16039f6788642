"""The operator's own metrics, all under `penstock_operator_`."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from penstock_operator.decide.figures import Figures

REGISTRY = CollectorRegistry()
_POOL = ("namespace", "pool")


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
    return Gauge(f"penstock_operator_{name}", text, labels, registry=REGISTRY)


def _counter(name: str, text: str, labels: tuple[str, ...]) -> Counter:
    return Counter(f"penstock_operator_{name}", text, labels, registry=REGISTRY)


PASS_SECONDS = Histogram(
    "penstock_operator_pass_duration_seconds",
    "One pass over the pools that were due: observe, decide, act.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=REGISTRY,
)
DECIDE_SECONDS = Histogram(
    "penstock_operator_decide_duration_seconds",
    "The decide step of one pass, over all its pools.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    registry=REGISTRY,
)
POOLS_DUE = _gauge("pools_due", "Pools that the last pass visited.")
WRITES = _counter(
    "writes_total", "Writes to the API server, by what it answered.", ("kind", "verb", "outcome")
)
DECISIONS = _counter(
    "decisions_total",
    "Decisions that differ from the one before, by what was done and which terms bound.",
    ("action", "cap_term", "replicas_term"),
)
LEADER = _gauge("leader", "1 while this process holds the Lease.")
PROMETHEUS_ROUNDS = _counter(
    "prometheus_rounds_total", "Rounds of questions to a Prometheus, by its URL.", ("server",)
)
OBSERVE_FAILURES = _counter(
    "observe_failures_total",
    "Rounds in which a pool with pods could not be read, or not from the Prometheus it should be.",
    ("source",),
)
POOL_FAILURES = _counter(
    "pool_failures_total", "Visits of a pool that failed and were put off.", ("reason",)
)
LAST_DECISION = _gauge("last_decision_timestamp_seconds", "When a pool was last decided on.", _POOL)
UNACKNOWLEDGED_PODS = _gauge(
    "unacknowledged_pods", "Pods that do not obey the published limits yet.", _POOL
)
REPLICAS_READY = _gauge("replicas_ready", "Replicas that are Ready.", _POOL)
REPLICAS_WANTED = _gauge("replicas_wanted", "Replicas that the law wants.", _POOL)
REVERSALS = _counter(
    "reversals_total", "Turns of the granted count: up after down, or down after up.", _POOL
)
OBJECTIVE_GOOD = _counter(
    "objective_good_total",
    "Requests completed within the RequestLatency objective; all completed ones where there is none.",
    _POOL,
)
OBJECTIVE_TOTAL = _counter(
    "objective_requests_total",
    "Requests that ended, however, or were refused for want of room; those that clients spoilt left out.",
    _POOL,
)

_FIGURES: dict[Gauge, Callable[[Figures], float | None]] = {
    _gauge("replicas_granted", "Replicas that the Deployment asks for.", _POOL): lambda one: (
        one.granted
    ),
    _gauge(
        "at_limit", "1 while a bound, a budget or the cluster keeps replicas from a pool.", _POOL
    ): lambda one: one.at_limit,
    _gauge("signals_absent", "1 while Ready pods cannot be seen.", _POOL): lambda one: (
        one.signals_absent
    ),
    _gauge(
        "replicas_contested", "1 while another writer keeps changing the replicas.", _POOL
    ): lambda one: one.contested,
    _gauge("demand_rows_per_second", "Rows received, refused ones too.", _POOL): lambda one: (
        one.demand
    ),
    _gauge(
        "forecast_rows_per_second",
        "Rows expected when a replica asked for now would serve, with headroom.",
        _POOL,
    ): lambda one: one.forecast,
    _gauge(
        "forecast_error_rows_per_second",
        "Rows that came, less those that were forecast for now a start-up ago.",
        _POOL,
    ): lambda one: one.forecast_error,
    _gauge(
        "effective_utilization_ratio", "Demand over the capacity of the Ready pods.", _POOL
    ): lambda one: one.utilization,
    _gauge("imbalance_ratio", "The busiest pod's demand over the mean pod's.", _POOL): lambda one: (
        one.imbalance
    ),
    _gauge("startup_p90_seconds", "Start-up of a replica, binding to Ready.", _POOL): lambda one: (
        one.startup_seconds
    ),
    _gauge("signal_age_seconds", "Age of the oldest sample used.", _POOL): lambda one: (
        one.signal_age_seconds
    ),
}
"""What is set from the figures of each decision; what is not known has no series."""

_PER_POOL: tuple[Gauge | Counter, ...] = (
    LAST_DECISION, UNACKNOWLEDGED_PODS, REPLICAS_READY, REPLICAS_WANTED, REVERSALS, OBJECTIVE_GOOD,
    OBJECTIVE_TOTAL, *_FIGURES,
)  # fmt: skip


def tell_figures(labels: dict[str, str], figures: Figures) -> None:
    """Set a pool's gauges."""
    REPLICAS_WANTED.labels(**labels).set(figures.wanted)
    for gauge, read in _FIGURES.items():
        value = read(figures)
        if value is None:
            gauge.remove_by_labels(labels)
        else:
            gauge.labels(**labels).set(value)


def forget_pool(labels: dict[str, str]) -> None:
    """Drop the series of a pool that is gone."""
    for metric in _PER_POOL:
        metric.remove_by_labels(labels)
