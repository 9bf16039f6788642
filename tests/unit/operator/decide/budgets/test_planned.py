"""Two pools under one policy, planned together: what is written, what is said, and who is woken."""

from dataclasses import replace

import pytest

from penstock_operator.decide.ledger import QuotaLedger
from tests.unit.operator.decide.budgets.town import (
    GPU,
    Town,
    budget,
    delete_and_wait,
    step,
    town,
    waiting,
)
from tests.unit.operator.decide.world import message, reason


def test_manual_pools_too_have_no_more_than_their_share() -> None:
    assert town(4, a=4, b=3).replicas() == {"a": 2, "b": 2}


def test_the_condition_says_how_many_were_wanted_and_granted_and_what_to_do() -> None:
    plans = town(4, a=4, b=3).go()
    assert reason(plans["a"], "BudgetLimited") == "True/BudgetShort"
    told = message(plans["a"], "BudgetLimited")
    assert (
        f"4 replicas (4 {GPU}) requested, 2 (2) granted: policy prod has 4 for all its pools"
        in told
    )
    assert "raise the budget's count" in told


def test_the_status_keeps_the_wish_and_names_who_bounded_it() -> None:
    status = town(4, a=4, b=3).go()["a"].status
    assert status.desired_replicas == 4
    (short,) = status.bounded or ()
    assert (short.field, short.asked, short.granted, short.policy) == (
        "status.desiredReplicas",
        "4",
        "2",
        "prod",
    )


def test_the_policy_says_what_is_wanted_granted_and_used() -> None:
    made = town(4, a=4, b=3)
    made.go()
    assert made.plan is not None
    status = made.plan.policies[0].status
    (spent,) = status.budgets or ()
    assert (spent.wanted, spent.granted, spent.used) == (7, 4, 4)
    exhausted = next(one for one in status.conditions or () if one.type == "BudgetExhausted")
    assert (str(exhausted.status), exhausted.reason) == ("True", "MoreWanted")


def test_a_pool_on_the_cpu_or_outside_the_policy_is_not_limited() -> None:
    made = Town((budget(1),))
    made.add("cpu", replicas=3, accelerator={"resourceName": GPU, "count": 0})
    made.add("gpu", replicas=3)
    plans = made.go()
    assert made.replicas() == {"cpu": 3, "gpu": 1}
    assert reason(plans["cpu"], "BudgetLimited") == "False/NoBudget"


def test_a_pool_that_is_granted_nothing_is_not_ready_and_says_why() -> None:
    plans = town(0, a=2).go()
    assert reason(plans["a"], "Ready") == "False/NoDevicesGranted"


def test_a_pool_whose_grant_changed_unseen_is_woken() -> None:
    made = town(4, a=4, b=1)
    assert made.replicas() == {"a": 3, "b": 1}
    made.worlds["b"].edit_spec(replicas=3)
    woken: set[str] = set()
    for _ in range(14):
        made.go("b")
        assert made.plan is not None
        woken |= made.plan.affected
    assert woken == {"uid-a"}
    made.go("a")
    assert made.replicas() == {"a": 2, "b": 1}


def test_who_gains_starts_only_when_who_loses_has_drained() -> None:
    made = town(4, a=4, b=1)
    made.worlds["b"].edit_spec(replicas=3)
    for _ in range(14):
        made.go()
    assert made.replicas() == {"a": 2, "b": 1}
    held = made.worlds["a"].pods
    made.worlds["a"].pods = (*held[:2], replace(held[2], terminating=True))
    made.go()
    assert made.replicas() == {"a": 2, "b": 1}
    made.worlds["a"].pods = held[:2]
    made.go()
    assert made.replicas() == {"a": 2, "b": 2}


def test_an_edit_of_the_budget_is_felt_in_the_same_pass() -> None:
    made = town(4, a=4, b=3)
    made.policies = (budget(2),)
    made.go()
    assert made.replicas() == {"a": 1, "b": 1}
    made.policies = (budget(7),)
    made.worlds["a"].pods, made.worlds["b"].pods = (), ()
    made.go()
    assert made.replicas() == {"a": 4, "b": 3}
    made.policies = ()
    assert reason(made.go()["a"], "BudgetLimited") == "False/NoBudget"


def test_a_full_budget_rolls_without_a_surge() -> None:
    made = town(4, a=4, b=3)
    made.go()
    rolling = made.worlds["a"].deployment["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}
    roomy = town(9, a=4, b=3)
    rolling = roomy.worlds["a"].deployment["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_rollout_that_a_full_budget_cannot_surge_is_told_and_replaces() -> None:
    made = town(4, a=4, b=3)
    made.go()
    world = made.worlds["a"]
    world.pods = tuple(replace(one, revision=world.revision) for one in world.pods)
    world.edit_spec(template={"labels": {"v": "2"}})
    (told,) = [one for one in made.go()["a"].events if one.reason == "ReplacingWithoutSurge"]
    assert "policy prod has no free device" in told.message
    assert "ReplacingWithoutSurge" not in {one.reason for one in made.go()["a"].events}


def test_the_strategy_surge_waits_for_a_full_budget_and_leaves_the_pods_alone() -> None:
    made = town(4, a=4, b=3)
    world = made.worlds["a"]
    world.edit_spec(rollout={"strategy": "Surge"})
    made.go()
    world.pods = tuple(replace(one, revision=world.revision) for one in world.pods)
    assert "paused" not in world.deployment["spec"]
    world.edit_spec(template={"labels": {"v": "2"}})
    plan = made.go()["a"]
    assert world.deployment["spec"]["paused"] is True
    assert reason(plan, "Progressing") == "False/RolloutWaits"
    made.policies = (budget(9),)
    made.go()
    made.go()
    assert "paused" not in world.deployment["spec"]


def test_pods_that_find_no_device_count_as_the_clusters_bound() -> None:
    made = town(100, a=3, b=3)
    for name in ("a", "b"):
        world = made.worlds[name]
        text = f"0/1 nodes are available: 1 Insufficient {GPU}."
        world.pods = (*world.pods[:2], waiting(f"{name}-x", world.now - 31, text))
    plans = made.go()
    assert reason(plans["a"], "BudgetLimited") == "True/ClusterShort"
    assert "the cluster places 4 for the pools of policy prod" in message(
        plans["a"], "BudgetLimited"
    )
    assert sum(made.replicas().values()) == 5  # one is left to wait


def test_pods_that_wait_for_something_else_are_no_bound() -> None:
    made = town(100, a=3, b=3)
    world = made.worlds["a"]
    text = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    world.pods = (*world.pods[:2], waiting("a-x", world.now - 31, text))
    assert reason(made.go()["a"], "BudgetLimited") == "False/WithinBudget"


def test_a_deleted_pools_devices_are_waited_for_until_they_must_have_drained() -> None:
    made = town(4, a=2, b=4)
    assert made.replicas() == {"a": 2, "b": 2}
    delete_and_wait(made)


def test_a_weight_is_bounded_by_a_policy() -> None:
    made = Town((budget(4, bounds={"weight": {"max": 100}}),))
    made.add("greedy", replicas=4, weight=10_000)
    made.add("modest", replicas=4)
    made.go()
    assert made.replicas() == {"greedy": 2, "modest": 2}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pool_in_hold_has_its_count_back_once_the_budget_has_room_again(restarted: bool) -> None:
    made = Town((budget(8),))
    made.add("a", replicas=4, scaling={"mode": "Hold"})
    made.add("b", replicas=4)
    made.go()
    made.run_pods()
    made.policies = (budget(4),)
    for _ in range(3):
        plans = made.go()
        assert made.replicas() == {"a": 2, "b": 2}
        assert plans["a"].status.desired_replicas == 4
        assert reason(plans["a"], "BudgetLimited") == "True/BudgetShort"
    made.run_pods()
    if restarted:
        made.worlds["a"].states.clear()
        made.ledger = QuotaLedger()
    made.policies = (budget(8),)
    made.go()
    assert made.replicas() == {"a": 4, "b": 4}


def test_hold_gives_others_what_they_need_and_takes_it_back() -> None:
    made = Town((budget(8),))
    made.add("a", replicas=4, scaling={"mode": "Hold"})
    for name in ("b", "c"):
        made.add(name, replicas=1)
    made.go()
    made.run_pods()
    for name in ("b", "c"):
        made.worlds[name].edit_spec(replicas=4)
    for _ in range(30):
        made.go()
        made.run_pods()
    assert made.replicas()["a"] == 3
    for name in ("b", "c"):
        made.worlds[name].edit_spec(replicas=1)
    for _ in range(3):
        made.go()
        made.run_pods()
    assert made.replicas() == {"a": 4, "b": 1, "c": 1}


def test_hold_that_was_set_while_nobody_looked_freezes_the_live_count() -> None:
    made = town(4, a=4, b=4)
    made.worlds["a"].edit_spec(scaling={"mode": "Hold"})
    made.worlds["a"].states.clear()
    assert made.go()["a"].status.desired_replicas == 2


def test_a_pod_that_waits_for_other_nodes_limits_no_pool_that_may_go_elsewhere() -> None:
    made = Town((budget(100),))
    made.add("a", replicas=3, template={"nodeSelector": {"gpu": "a100"}})
    made.add("b", replicas=3)
    made.go()
    made.run_pods()
    world = made.worlds["a"]
    text = f"0/5 nodes are available: 2 Insufficient {GPU}, 3 node(s) didn't match Pod's node affinity/selector."
    world.pods = (*world.pods[:2], waiting("a-x", world.now - 31, text))
    plans = made.go()
    assert reason(plans["a"], "BudgetLimited") == "True/ClusterShort"
    assert "that select the same nodes" in message(plans["a"], "BudgetLimited")
    assert reason(plans["b"], "BudgetLimited") == "False/WithinBudget"
    assert step(made, "b") == {"maxSurge": 1, "maxUnavailable": 0}
