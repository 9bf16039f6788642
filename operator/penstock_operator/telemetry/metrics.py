"""The operator's own metrics, all under `penstock_operator_`."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from penstock_operator.telemetry.pool_metrics import PoolTable

OWN = CollectorRegistry()
"""What is told of the operator itself and of policies."""
REGISTRY = CollectorRegistry()
"""All there is, the pools' series too: to be looked through, not to be scraped (`exposition`)."""


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
    return Gauge(f"penstock_operator_{name}", text, labels, registry=OWN)


def _counter(name: str, text: str, labels: tuple[str, ...]) -> Counter:
    return Counter(f"penstock_operator_{name}", text, labels, registry=OWN)


PASS_SECONDS = Histogram(
    "penstock_operator_pass_duration_seconds",
    "One pass over the pools that were due: observe, decide, act.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=OWN,
)
DECIDE_SECONDS = Histogram(
    "penstock_operator_decide_duration_seconds",
    "The decide step of one pass, over all its pools.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    registry=OWN,
)
LATE_SECONDS = Histogram(
    "penstock_operator_visit_late_seconds",
    "How far past its pace, 5 s or 30 s after the visit before, a pool was visited.",
    buckets=(0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0),
    registry=OWN,
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
    "pool_failures_total",
    "Visits of a pool that failed and were put off; with LawFailed the control law alone failed, and the visit went on.",
    ("reason",),
)
POOLS = PoolTable()
REGISTRY.register(OWN)
REGISTRY.register(POOLS)


def exposition() -> bytes:
    """Return everything in Prometheus' text format; safe to call in a thread beside the pass."""
    return generate_latest(OWN) + POOLS.text().encode()
