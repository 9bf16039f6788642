"""The operator's own metrics, all under `penstock_operator_`."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()
_POOL = ("namespace", "pool")


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
    return Gauge(f"penstock_operator_{name}", text, labels, registry=REGISTRY)


PASS_SECONDS = Histogram(
    "penstock_operator_pass_duration_seconds",
    "One pass over the pools that were due: observe, decide, act.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=REGISTRY,
)
POOLS_DUE = _gauge("pools_due", "Pools that the last pass visited.")
WRITES = Counter(
    "penstock_operator_writes_total",
    "Writes to the API server, by what it answered.",
    ("kind", "verb", "outcome"),
    registry=REGISTRY,
)
DECISIONS = Counter(
    "penstock_operator_decisions_total",
    "Decisions that differ from the one before, by what was done and which terms bound.",
    ("action", "cap_term", "replicas_term"),
    registry=REGISTRY,
)
LAST_DECISION = _gauge("last_decision_timestamp_seconds", "When a pool was last decided on.", _POOL)
LEADER = _gauge("leader", "1 while this process holds the Lease.")
UNACKNOWLEDGED_PODS = _gauge(
    "unacknowledged_pods", "Pods that do not obey the published limits yet.", _POOL
)
REPLICAS_WANTED = _gauge("replicas_wanted", "Replicas that the loop wants.", _POOL)
REPLICAS_READY = _gauge("replicas_ready", "Replicas that are Ready.", _POOL)
OBSERVE_FAILURES = Counter(
    "penstock_operator_observe_failures_total",
    "Rounds in which a pool with pods could not be read, or not from the Prometheus it should be.",
    ("source",),
    registry=REGISTRY,
)
POOL_FAILURES = Counter(
    "penstock_operator_pool_failures_total",
    "Visits of a pool that failed and were put off.",
    ("reason",),
    registry=REGISTRY,
)
_PER_POOL = (LAST_DECISION, UNACKNOWLEDGED_PODS, REPLICAS_WANTED, REPLICAS_READY)


def forget_pool(labels: dict[str, str]) -> None:
    """Drop the series of a pool that is gone."""
    for gauge in _PER_POOL:
        gauge.remove_by_labels(labels)
