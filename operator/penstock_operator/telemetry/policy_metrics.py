"""What policies come to, as the operator's own metrics: how budgets are spent, and what candidates would do."""

from prometheus_client import Gauge

from penstock_api.types.policy import BudgetStatus
from penstock_api.types.status import CandidateDecision
from penstock_operator.decide.plan import Plan
from penstock_operator.telemetry.metrics import OWN

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
_BUDGETS = (WANTED, GRANTED, USED)
_CANDIDATES = (REPLICAS, CAP, HOURS, ACTUAL)
_SPENT: set[tuple[str, str]] = set()
"""(policy, resource) of the budgets that have series."""
_TRIED: dict[tuple[str, str], str] = {}
"""The policy whose candidate a pool has series of, by (namespace, pool)."""


def record_plan(plan: Plan) -> None:
    """Set the gauges of everything that a pass planned; budgets that it does not tell of have none."""
    budgets = {
        (policy.name, each.resource_name): each
        for policy in plan.policies
        for each in policy.status.budgets or ()
    }
    for gone in _SPENT - budgets.keys():
        _forget_budget(gone)
    for key, budget in budgets.items():
        _tell_budget(key, budget)
    for pool in plan.pools:
        tried = pool.status.candidate
        if tried is None or _TRIED.get((pool.namespace, pool.name)) != tried.policy:
            forget_pool(pool.namespace, pool.name)
        if tried is not None:
            _tell_candidate(pool.namespace, pool.name, tried)


def forget_pool(namespace: str, pool: str) -> None:
    """Drop the series of a pool that is gone, or on which that candidate is tried no more."""
    policy = _TRIED.pop((namespace, pool), None)
    if policy is not None:
        for one in _CANDIDATES:
            one.remove(namespace, pool, policy)


def forget_all() -> None:
    """Drop every series: this process plans nothing now."""
    for budget in _SPENT.copy():
        _forget_budget(budget)
    for namespace, pool in tuple(_TRIED):
        forget_pool(namespace, pool)


def _forget_budget(budget: tuple[str, str]) -> None:
    _SPENT.discard(budget)
    for one in _BUDGETS:
        one.remove(*budget)


def _tell_budget(budget: tuple[str, str], spent: BudgetStatus) -> None:
    _SPENT.add(budget)
    WANTED.labels(*budget).set(spent.wanted)
    GRANTED.labels(*budget).set(spent.granted)
    USED.labels(*budget).set(spent.used)


def _tell_candidate(namespace: str, pool: str, tried: CandidateDecision) -> None:
    _TRIED[namespace, pool] = tried.policy
    labels = (namespace, pool, tried.policy)
    REPLICAS.labels(*labels).set(tried.replicas)
    CAP.labels(*labels).set(tried.cap)
    HOURS.labels(*labels).set(float(tried.replica_hours))
    ACTUAL.labels(*labels).set(float(tried.actual_replica_hours))
