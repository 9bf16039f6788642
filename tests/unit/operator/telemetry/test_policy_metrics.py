"""Metrics of policies: series are dropped with their policy, budget or candidate."""

from collections.abc import Iterator

import pytest

from penstock_api.types.policy import BudgetStatus, PolicyStatus
from penstock_operator.decide.plan import Plan, PolicyPlan
from penstock_operator.telemetry import metrics, policy_metrics
from tests.unit.operator.decide.world import World, policy, pool, settled

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


@pytest.fixture(autouse=True)
def _no_series() -> Iterator[None]:
    policy_metrics.forget_all()
    yield
    policy_metrics.forget_all()


def policy_plan(name: str, *resources: str) -> PolicyPlan:
    budgets = (BudgetStatus(resource_name=name, wanted=3, granted=2, used=1) for name in resources)
    return PolicyPlan(name, PolicyStatus(budgets=tuple(budgets) or None))


def record(*policies: PolicyPlan) -> None:
    policy_metrics.record_plan(Plan((), policies))


def labels(name: str, label: str) -> set[str]:
    """Return the values of a label over the series of a gauge."""
    full = f"penstock_operator_{name}"
    samples = (sample for family in metrics.OWN.collect() for sample in family.samples)
    return {sample.labels[label] for sample in samples if sample.name == full}


def budgets(label: str) -> set[str]:
    wanted, granted, used = (
        labels(f"budget_{gauge}", label) for gauge in ("wanted", "granted", "used")
    )
    assert wanted == granted == used
    return wanted


def test_a_deleted_policy_has_no_series_of_budgets() -> None:
    record(policy_plan("prod", GPU), policy_plan("batch", GPU))
    assert budgets("policy") == {"prod", "batch"}
    record(policy_plan("batch", GPU))
    assert budgets("policy") == {"batch"}


def test_a_removed_budget_has_no_series() -> None:
    record(policy_plan("prod", GPU, MIG))
    record(policy_plan("prod", MIG))
    assert budgets("resource") == {MIG}
    record(policy_plan("prod"))
    assert budgets("resource") == set()


def with_candidate(name: str) -> World:
    candidate = {"defaults": {"scaling": {"minReplicas": 3}}}
    candidate_policy = policy(name, candidate=candidate)
    return settled(pool=pool(scaling={"mode": "Auto"}), policies=(candidate_policy,))


def test_a_pool_has_series_of_its_current_candidate_alone() -> None:
    for name in ("first", "second"):
        policy_metrics.record_plan(with_candidate(name).whole_plan())
        for gauge in ("replicas", "batch_cap", "replica_hours", "actual_replica_hours"):
            assert labels(f"candidate_{gauge}", "policy") == {name}


def test_a_process_that_does_not_lead_has_no_series_of_policies() -> None:
    policy_metrics.record_plan(with_candidate("first").whole_plan())
    record(policy_plan("prod", GPU))
    policy_metrics.forget_all()
    assert budgets("policy") == set()
    assert labels("candidate_replicas", "policy") == set()
