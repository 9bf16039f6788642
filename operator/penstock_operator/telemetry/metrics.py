"""Metrics of the operator itself, all with the prefix `penstock_operator_`."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from penstock_operator.telemetry.pool_metrics import PoolTable

OWN = CollectorRegistry()
"""Metrics of the operator itself and of policies."""
REGISTRY = CollectorRegistry()
"""All metrics, including those of pools; for inspection: `exposition` renders the scrape."""


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
    return Gauge(f"penstock_operator_{name}", text, labels, registry=OWN)


def _counter(name: str, text: str, labels: tuple[str, ...]) -> Counter:
    return Counter(f"penstock_operator_{name}", text, labels, registry=OWN)


PASS_SECONDS = Histogram(
    "penstock_operator_pass_duration_seconds",
    "Duration of one pass over the pools that were due: observe, decide, act.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=OWN,
)
DECIDE_SECONDS = Histogram(
    "penstock_operator_decide_duration_seconds",
    "Duration of the decide step of one pass, over all its pools.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    registry=OWN,
)
LATE_SECONDS = Histogram(
    "penstock_operator_visit_late_seconds",
    "Lateness of a periodic reconcile, which is due 5 s or 30 s after the last one.",
    buckets=(0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0),
    registry=OWN,
)
POOLS_DUE = _gauge("pools_due", "Pools in the last pass.")
WRITES = _counter(
    "writes_total", "Writes to the API server, by outcome.", ("kind", "verb", "outcome")
)
DECISIONS = _counter(
    "decisions_total",
    "Decisions that differ from the last one, by action and binding terms.",
    ("action", "cap_term", "replicas_term"),
)
LEADER = _gauge("leader", "1 while this process holds the Lease.")
PROMETHEUS_ROUNDS = _counter(
    "prometheus_rounds_total", "Rounds of queries to a Prometheus, by its URL.", ("server",)
)
OBSERVE_FAILURES = _counter(
    "observe_failures_total",
    "Rounds in which a pool's signals were unavailable or not from its Prometheus, by the source used.",
    ("source",),
)
POOL_FAILURES = _counter(
    "pool_failures_total",
    "Failed reconciles of a pool, which is requeued with back-off; with LawFailed only the control law failed, and the reconcile continued.",
    ("reason",),
)
POOLS = PoolTable()
REGISTRY.register(OWN)
REGISTRY.register(POOLS)


def exposition() -> bytes:
    """Return all metrics in the Prometheus text format; safe to call in another thread than the pass."""
    return generate_latest(OWN) + POOLS.text().encode()
