"""Metrics of policies: use of budgets, and decisions of candidates."""

from prometheus_client import Gauge

from penstock_api.types.policy import BudgetStatus
from penstock_api.types.status import CandidateDecision
from penstock_operator.decide.plan import Plan
from penstock_operator.telemetry.metrics import OWN

_POOL = ("namespace", "pool", "policy")
_BUDGET = ("policy", "resource")


def _gauge(name: str, text: str, labels: tuple[str, ...]) -> Gauge:
    return Gauge(f"penstock_operator_{name}", text, labels, registry=OWN)


REQUESTED = _gauge("budget_wanted", "Devices that the pools of a budget request.", _BUDGET)
GRANTED = _gauge("budget_granted", "Devices that the budget grants its pools.", _BUDGET)
USED = _gauge("budget_used", "Devices that bound pods of the budget's pools use.", _BUDGET)
REPLICAS = _gauge("candidate_replicas", "Replicas that a candidate would request.", _POOL)
CAP = _gauge("candidate_batch_cap", "The batch cap that a candidate would publish.", _POOL)
HOURS = _gauge(
    "candidate_replica_hours", "Replica hours that a candidate would have requested.", _POOL
)
ACTUAL = _gauge(
    "candidate_actual_replica_hours", "Replica hours that were requested in the same time.", _POOL
)
_BUDGET_GAUGES = (REQUESTED, GRANTED, USED)
_CANDIDATE_GAUGES = (REPLICAS, CAP, HOURS, ACTUAL)
_EXPORTED_BUDGETS: set[tuple[str, str]] = set()
"""(policy, resource) of the budgets with series."""
_EXPORTED_CANDIDATES: dict[tuple[str, str], str] = {}
"""Policy of the candidate with series, by (namespace, pool)."""


def record_plan(plan: Plan) -> None:
    """Set the gauges of a plan, and drop the series of budgets and candidates that it does not contain."""
    budgets = {
        (policy.name, each.resource_name): each
        for policy in plan.policies
        for each in policy.status.budgets or ()
    }
    for removed in _EXPORTED_BUDGETS - budgets.keys():
        _forget_budget(removed)
    for key, budget in budgets.items():
        _record_budget(key, budget)
    for pool in plan.pools:
        candidate = pool.status.candidate
        if (
            candidate is None
            or _EXPORTED_CANDIDATES.get((pool.namespace, pool.name)) != candidate.policy
        ):
            forget_pool(pool.namespace, pool.name)
        if candidate is not None:
            _record_candidate(pool.namespace, pool.name, candidate)


def forget_pool(namespace: str, pool: str) -> None:
    """Drop the candidate's series of a pool: the pool was deleted, or the candidate ended."""
    policy = _EXPORTED_CANDIDATES.pop((namespace, pool), None)
    if policy is not None:
        for gauge in _CANDIDATE_GAUGES:
            gauge.remove(namespace, pool, policy)


def forget_all() -> None:
    """Drop every series: this process no longer decides."""
    for budget in _EXPORTED_BUDGETS.copy():
        _forget_budget(budget)
    for namespace, pool in tuple(_EXPORTED_CANDIDATES):
        forget_pool(namespace, pool)


def _forget_budget(budget: tuple[str, str]) -> None:
    _EXPORTED_BUDGETS.discard(budget)
    for gauge in _BUDGET_GAUGES:
        gauge.remove(*budget)


def _record_budget(budget: tuple[str, str], status: BudgetStatus) -> None:
    _EXPORTED_BUDGETS.add(budget)
    REQUESTED.labels(*budget).set(status.wanted)
    GRANTED.labels(*budget).set(status.granted)
    USED.labels(*budget).set(status.used)


def _record_candidate(namespace: str, pool: str, candidate: CandidateDecision) -> None:
    _EXPORTED_CANDIDATES[namespace, pool] = candidate.policy
    labels = (namespace, pool, candidate.policy)
    REPLICAS.labels(*labels).set(candidate.replicas)
    CAP.labels(*labels).set(candidate.cap)
    HOURS.labels(*labels).set(float(candidate.replica_hours))
    ACTUAL.labels(*labels).set(float(candidate.actual_replica_hours))
