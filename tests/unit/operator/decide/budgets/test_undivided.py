"""Undivided budgets: no count changes under a budget until all of its pools were observed, and no effect remains."""

from dataclasses import replace

import pytest

from penstock_api import names
from penstock_operator.decide.budgets.settlement import settle
from penstock_operator.decide.quota_ledger import QuotaLedger
from tests.unit.operator.decide.budgets.fleet import (
    REPLACING,
    SURGING,
    TEMPLATE,
    Fleet,
    budget,
    fleet_of,
    step,
)
from tests.unit.operator.decide.budgets.requests import BUDGET, GPU, quota_request, startable
from tests.unit.operator.decide.world import World, policy, reason


def test_no_count_changes() -> None:
    news = {"a": quota_request("a", 4, deployed=2), "b": quota_request("b", 1, deployed=3)}
    ledger = settle(QuotaLedger(), news, {BUDGET: 8}, {BUDGET}, 0.0)
    assert startable(ledger) == {"a": 2, "b": 1}


def test_budgets_that_share_pools_wait_for_each_other_and_others_do_not() -> None:
    news = {
        "a": quota_request("a", 4, policies=("prod",)),
        "b": quota_request("b", 4, policies=("prod", "team")),
        "c": quota_request("c", 4, policies=("team",)),
        "d": quota_request("d", 4, policies=("other",)),
        "e": quota_request("e", 4, resource="example.com/tpu"),
    }
    budgets = {(name, GPU): 8 for name in ("prod", "team", "other")}
    budgets["prod", "example.com/tpu"] = 8
    ledger = settle(QuotaLedger(), news, budgets, {("team", GPU)}, 0.0)
    assert startable(ledger) == {"a": 0, "b": 0, "c": 0, "d": 4, "e": 4}


def test_a_new_pool_under_another_policy_delays_no_other_pool() -> None:
    prod = budget(8, namespaceSelector={"matchLabels": {"tier": "prod"}})
    mine = [{"resourceName": GPU, "count": 8}]
    other = policy("dev", namespaceSelector={"matchLabels": {"tier": "dev"}}, gpuBudgets=mine)
    fleet = Fleet((prod, other))
    for name, tier in (("a", "prod"), ("b", "dev")):
        fleet.add(name, replicas=4)
        fleet.worlds[name].namespace_labels = {"tier": tier}
    plans = fleet.run("a")
    assert fleet.worlds["a"].deployment["spec"]["replicas"] == 4
    assert reason(plans["a"], "BudgetLimited") == "False/WithinBudget"


@pytest.mark.parametrize("mode", ["Auto", "Hold"])
def test_new_pools_start_with_spec_replicas_once_all_were_observed(mode: str) -> None:
    fleet = Fleet((budget(8),))
    for name in ("a", "b"):
        fleet.add(name, replicas=4, scaling={"mode": mode, "maxReplicas": 8})
    for _ in range(3):
        plans = fleet.run("a")
        assert fleet.worlds["a"].deployment["spec"]["replicas"] == 0
        assert plans["a"].status.desired_replicas == 4
        assert reason(plans["a"], "BudgetLimited") == "True/NotDividedYet"
        assert reason(plans["a"], "Ready") == "False/NoDevicesGranted"
    fleet.run()
    assert fleet.replicas() == {"a": 4, "b": 4}


def rolling(fleet: Fleet) -> World:
    """Start a rollout of the pool `a`."""
    world = fleet.worlds["a"]
    world.edit_spec(template=TEMPLATE)
    fleet.run()
    assert step(fleet, "a") == SURGING
    return world


@pytest.mark.parametrize("restarted", [False, True])
def test_a_rollout_that_surges_continues_to_surge(restarted: bool) -> None:
    fleet = fleet_of(9, a=1)
    world = rolling(fleet)
    fleet.add("b", replicas=1)
    if restarted:
        world.states.clear()
        fleet.ledger = QuotaLedger()
    for due in (("a",), ()):
        fleet.run(*due)
        assert step(fleet, "a") == SURGING
        assert "paused" not in world.deployment["spec"]
        assert names.ANNOTATION_WITHOUT_SURGE not in world.deployment["metadata"]["annotations"]


@pytest.mark.parametrize("count", [9, 1])
def test_a_rollout_that_has_not_started_waits_until_the_budget_is_divided(count: int) -> None:
    fleet = fleet_of(count, a=1)
    world = fleet.worlds["a"]
    fleet.add("b", replicas=0)
    world.edit_spec(template=TEMPLATE)
    plans = fleet.run("a")
    assert world.deployment["spec"]["paused"] is True
    assert names.ANNOTATION_WITHOUT_SURGE not in world.deployment["metadata"]["annotations"]
    assert reason(plans["a"], "Progressing") == "False/RolloutWaits"
    fleet.run()
    assert "paused" not in world.deployment["spec"]
    assert step(fleet, "a") == (SURGING if count == 9 else REPLACING)


def test_a_rollout_that_gave_up_its_surge_continues_to_replace_pods() -> None:
    fleet = fleet_of(1, a=1)
    fleet.worlds["a"].edit_spec(template=TEMPLATE)
    fleet.run()
    assert step(fleet, "a") == REPLACING
    fleet.add("b", replicas=1)
    fleet.run("a")
    assert step(fleet, "a") == REPLACING
    assert "paused" not in fleet.worlds["a"].deployment["spec"]


@pytest.mark.parametrize("count", [9, 4])
def test_a_pool_without_a_rollout_is_not_written(count: int) -> None:
    fleet = fleet_of(count, a=4)
    fleet.add("b", replicas=1)
    plan = fleet.run("a")["a"]
    assert "Deployment" not in {write.kind for write in plan.writes}


def test_the_strategy_surge_continues_a_surge_and_starts_no_rollout() -> None:
    fleet = fleet_of(9, a=1)
    fleet.worlds["a"].edit_spec(rollout={"strategy": "Surge"})
    world = rolling(fleet)
    fleet.add("b", replicas=1)
    fleet.run("a")
    assert "paused" not in world.deployment["spec"]
    world.pods = tuple(replace(pod, revision=world.revision) for pod in world.pods)
    world.edit_spec(template={"labels": {"v": "3"}})
    fleet.run("a")
    assert world.deployment["spec"]["paused"] is True


def test_an_unreadable_pool_keeps_the_devices_that_it_requested() -> None:
    fleet = fleet_of(4, a=2, b=2)
    fleet.worlds["b"].edit_spec(replicas=4)
    fleet.unreadable.add("a")
    for _ in range(3):
        fleet.run()
        fleet.worlds["b"].now += 200
    assert fleet.replicas() == {"a": 2, "b": 2}


def test_a_pool_that_was_never_readable_does_not_keep_a_budget_undivided() -> None:
    fleet = Fleet((budget(4),))
    fleet.add("a", replicas=2)
    fleet.add("b", replicas=2)
    fleet.unreadable.add("a")
    fleet.run()
    assert fleet.worlds["b"].deployment["spec"]["replicas"] == 2
