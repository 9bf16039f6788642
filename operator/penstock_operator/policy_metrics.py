"""What policies come to, as the operator's own metrics: how budgets are spent, and what candidates would do."""

from prometheus_client import Gauge

from penstock_api.policy import PolicyStatus
from penstock_api.status import CandidateDecision
from penstock_operator.decide.plan import Plan
from penstock_operator.metrics import OWN

_POOL = ("namespace", "pool", "policy")
_BUDGET = ("policy", "resource")


def _gauge(name: str, text: str, labels: tuple[str, ...]) -> Gauge:
    return Gauge(f"penstock_operator_{name}", text, labels, registry=OWN)


WANTED = _gauge("budget_wanted", "Devices that the pools of a budget want.", _BUDGET)
GRANTED = _gauge("budget_granted", "Devices that they may have.", _BUDGET)
USED = _gauge("budget_used", "Devices that their bound pods hold.", _BUDGET)
REPLICAS = _gauge("candidate_replicas", "Replicas that a candidate would ask for.", _POOL)
CAP = _gauge("candidate_batch_cap", "The batch cap that a candidate would publish.", _POOL)
HOURS = _gauge("candidate_replica_hours", "Replica hours that it would have asked for.", _POOL)
ACTUAL = _gauge("candidate_actual_replica_hours", "Those that were asked for meanwhile.", _POOL)
_CANDIDATES = (REPLICAS, CAP, HOURS, ACTUAL)
_TOLD: set[tuple[str, str]] = set()
"""(namespace, pool) of the pools that have series of a candidate."""


def tell_plan(plan: Plan) -> None:
    """Set the gauges of everything that a pass planned."""
    for policy in plan.policies:
        _tell_budgets(policy.name, policy.status)
    for pool in plan.pools:
        tried = pool.status.candidate
        if tried is None:
            forget_pool(pool.namespace, pool.name)
        else:
            _tell_candidate(pool.namespace, pool.name, tried)


def forget_pool(namespace: str, pool: str) -> None:
    """Drop the series of a pool that is gone, or on which nothing is tried any more."""
    if (namespace, pool) in _TOLD:
        _TOLD.discard((namespace, pool))
        for one in _CANDIDATES:
            one.remove_by_labels({"namespace": namespace, "pool": pool})


def _tell_budgets(policy: str, status: PolicyStatus) -> None:
    for each in status.budgets or ():
        WANTED.labels(policy, each.resource_name).set(each.wanted)
        GRANTED.labels(policy, each.resource_name).set(each.granted)
        USED.labels(policy, each.resource_name).set(each.used)


def _tell_candidate(namespace: str, pool: str, tried: CandidateDecision) -> None:
    _TOLD.add((namespace, pool))
    labels = (namespace, pool, tried.policy)
    REPLICAS.labels(*labels).set(tried.replicas)
    CAP.labels(*labels).set(tried.cap)
    HOURS.labels(*labels).set(float(tried.replica_hours))
    ACTUAL.labels(*labels).set(float(tried.actual_replica_hours))
