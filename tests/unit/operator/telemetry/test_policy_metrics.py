"""Metrics of policies: they go with what they tell of, be it a policy, one of its budgets, or a candidate."""

from collections.abc import Iterator

import pytest

from penstock_api.types.policy import BudgetStatus, PolicyStatus
from penstock_operator.decide.plan import Plan, PolicyPlan
from penstock_operator.telemetry import metrics, policy_metrics
from tests.unit.operator.decide.world import World, policy, pool, settled

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


@pytest.fixture(autouse=True)
def _nothing_told() -> Iterator[None]:
    policy_metrics.forget_all()
    yield
    policy_metrics.forget_all()


def spent(name: str, *resources: str) -> PolicyPlan:
    budgets = (BudgetStatus(resource_name=one, wanted=3, granted=2, used=1) for one in resources)
    return PolicyPlan(name, PolicyStatus(budgets=tuple(budgets) or None))


def tell(*policies: PolicyPlan) -> None:
    policy_metrics.record_plan(Plan((), policies))


def labels(name: str, label: str) -> set[str]:
    """Return what series of a gauge say under a label."""
    full = f"penstock_operator_{name}"
    found = (sample for one in metrics.OWN.collect() for sample in one.samples)
    return {one.labels[label] for one in found if one.name == full}


def budgets(label: str) -> set[str]:
    wanted, granted, used = (
        labels(f"budget_{one}", label) for one in ("wanted", "granted", "used")
    )
    assert wanted == granted == used
    return wanted


def test_a_policy_that_is_gone_takes_its_budgets_along() -> None:
    tell(spent("prod", GPU), spent("batch", GPU))
    assert budgets("policy") == {"prod", "batch"}
    tell(spent("batch", GPU))
    assert budgets("policy") == {"batch"}


def test_a_budget_that_a_policy_sets_no_more_has_no_series() -> None:
    tell(spent("prod", GPU, MIG))
    tell(spent("prod", MIG))
    assert budgets("resource") == {MIG}
    tell(spent("prod"))
    assert budgets("resource") == set()


def trying(name: str) -> World:
    candidate = {"defaults": {"scaling": {"minReplicas": 3}}}
    tried = policy(name, candidate=candidate)
    return settled(pool=pool(scaling={"mode": "Auto"}), policies=(tried,))


def test_a_pool_on_which_another_policys_candidate_is_tried_tells_of_that_alone() -> None:
    for name in ("first", "second"):
        policy_metrics.record_plan(trying(name).whole_plan())
        for gauge in ("replicas", "batch_cap", "replica_hours", "actual_replica_hours"):
            assert labels(f"candidate_{gauge}", "policy") == {name}


def test_a_process_that_plans_nothing_has_no_series_of_policies() -> None:
    policy_metrics.record_plan(trying("first").whole_plan())
    tell(spent("prod", GPU))
    policy_metrics.forget_all()
    assert budgets("policy") == set()
    assert labels("candidate_replicas", "policy") == set()
