"""Until every pool under a budget was looked at no count moves in it: a passing moment, that leaves nothing behind."""

from dataclasses import replace

import pytest

from penstock_api import names
from penstock_operator.decide.budgets.settlement import settle
from penstock_operator.decide.ledger import QuotaLedger
from tests.unit.operator.decide.budgets.requests import BUDGET, GPU, asked_for, request
from tests.unit.operator.decide.budgets.town import Town, budget, step, town
from tests.unit.operator.decide.world import World, policy, reason

SURGING, REPLACING = {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}
TEMPLATE = {"labels": {"v": "2"}}


def test_nobodys_count_moves() -> None:
    news = {"a": request("a", 4, deployed=2), "b": request("b", 1, deployed=3)}
    ledger = settle(QuotaLedger(), news, {BUDGET: 8}, {BUDGET}, 0.0)
    assert asked_for(ledger) == {"a": 2, "b": 1}


def test_budgets_that_share_pools_wait_together_and_others_do_not_wait() -> None:
    news = {
        "a": request("a", 4, policies=("prod",)),
        "b": request("b", 4, policies=("prod", "team")),
        "c": request("c", 4, policies=("team",)),
        "d": request("d", 4, policies=("other",)),
        "e": request("e", 4, resource="example.com/tpu"),
    }
    budgets = {(name, GPU): 8 for name in ("prod", "team", "other")}
    budgets["prod", "example.com/tpu"] = 8
    ledger = settle(QuotaLedger(), news, budgets, {("team", GPU)}, 0.0)
    assert asked_for(ledger) == {"a": 0, "b": 0, "c": 0, "d": 4, "e": 4}


def test_a_new_pool_under_another_policy_keeps_nobody_waiting() -> None:
    prod = budget(8, namespaceSelector={"matchLabels": {"tier": "prod"}})
    mine = [{"resourceName": GPU, "count": 8}]
    other = policy("dev", namespaceSelector={"matchLabels": {"tier": "dev"}}, gpuBudgets=mine)
    made = Town((prod, other))
    for name, tier in (("a", "prod"), ("b", "dev")):
        made.add(name, replicas=4)
        made.worlds[name].namespace_labels = {"tier": tier}
    plans = made.go("a")
    assert made.worlds["a"].deployment["spec"]["replicas"] == 4
    assert reason(plans["a"], "BudgetLimited") == "False/WithinBudget"


@pytest.mark.parametrize("mode", ["Auto", "Hold"])
def test_new_pools_start_with_spec_replicas_once_all_were_looked_at(mode: str) -> None:
    made = Town((budget(8),))
    for name in ("a", "b"):
        made.add(name, replicas=4, scaling={"mode": mode, "maxReplicas": 8})
    for _ in range(3):
        plans = made.go("a")
        assert made.worlds["a"].deployment["spec"]["replicas"] == 0
        assert plans["a"].status.desired_replicas == 4
        assert reason(plans["a"], "BudgetLimited") == "True/NotDividedYet"
        assert reason(plans["a"], "Ready") == "False/NoDevicesGranted"
    made.go()
    assert made.replicas() == {"a": 4, "b": 4}


def rolling(made: Town) -> World:
    """Begin a rollout of the pool `a`."""
    world = made.worlds["a"]
    world.edit_spec(template=TEMPLATE)
    made.go()
    assert step(made, "a") == SURGING
    return world


@pytest.mark.parametrize("restarted", [False, True])
def test_a_rollout_that_surges_goes_on_surging(restarted: bool) -> None:
    made = town(9, a=1)
    world = rolling(made)
    made.add("b", replicas=1)
    if restarted:
        world.states.clear()
        made.ledger = QuotaLedger()
    for due in (("a",), ()):
        made.go(*due)
        assert step(made, "a") == SURGING
        assert "paused" not in world.deployment["spec"]
        assert names.ANNOTATION_WITHOUT_SURGE not in world.deployment["metadata"]["annotations"]


@pytest.mark.parametrize("count", [9, 1])
def test_a_rollout_that_has_not_begun_waits_until_the_budget_is_divided(count: int) -> None:
    made = town(count, a=1)
    world = made.worlds["a"]
    made.add("b", replicas=0)
    world.edit_spec(template=TEMPLATE)
    plans = made.go("a")
    assert world.deployment["spec"]["paused"] is True
    assert names.ANNOTATION_WITHOUT_SURGE not in world.deployment["metadata"]["annotations"]
    assert reason(plans["a"], "Progressing") == "False/RolloutWaits"
    made.go()
    assert "paused" not in world.deployment["spec"]
    assert step(made, "a") == (SURGING if count == 9 else REPLACING)


def test_a_rollout_that_gave_up_its_surge_goes_on_replacing() -> None:
    made = town(1, a=1)
    made.worlds["a"].edit_spec(template=TEMPLATE)
    made.go()
    assert step(made, "a") == REPLACING
    made.add("b", replicas=1)
    made.go("a")
    assert step(made, "a") == REPLACING
    assert "paused" not in made.worlds["a"].deployment["spec"]


@pytest.mark.parametrize("count", [9, 4])
def test_a_pool_that_does_not_roll_is_not_written(count: int) -> None:
    made = town(count, a=4)
    made.add("b", replicas=1)
    plan = made.go("a")["a"]
    assert "Deployment" not in {one.kind for one in plan.writes}


def test_the_strategy_surge_surges_on_and_begins_nothing() -> None:
    made = town(9, a=1)
    made.worlds["a"].edit_spec(rollout={"strategy": "Surge"})
    world = rolling(made)
    made.add("b", replicas=1)
    made.go("a")
    assert "paused" not in world.deployment["spec"]
    world.pods = tuple(replace(one, revision=world.revision) for one in world.pods)
    world.edit_spec(template={"labels": {"v": "3"}})
    made.go("a")
    assert world.deployment["spec"]["paused"] is True
