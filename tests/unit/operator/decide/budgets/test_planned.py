"""Plans of two pools under one policy: writes, messages and enqueued pools."""

from dataclasses import replace

import pytest

from penstock_operator.decide.quota_ledger import QuotaLedger
from tests.unit.operator.decide.budgets.fleet import (
    GPU,
    REPLACING,
    SURGING,
    TEMPLATE,
    Fleet,
    budget,
    fleet_of,
    is_paused,
    step,
    waiting,
)
from tests.unit.operator.decide.world import message, reason


def test_pools_in_mode_manual_get_no_more_than_their_share() -> None:
    assert fleet_of(4, a=4, b=3).replicas() == {"a": 2, "b": 2}


def test_the_condition_reports_requested_and_granted_devices_and_a_remedy() -> None:
    plans = fleet_of(4, a=4, b=3).run()
    assert reason(plans["a"], "BudgetLimited") == "True/BudgetShort"
    text = message(plans["a"], "BudgetLimited")
    assert (
        f"4 replicas (4 {GPU}) requested, 2 (2) granted: policy prod allows 4 for all its pools"
        in text
    )
    assert "raise the budget's count" in text


def test_the_status_keeps_the_requested_count_and_names_the_policy_that_bounds_it() -> None:
    status = fleet_of(4, a=4, b=3).run()["a"].status
    assert status.desired_replicas == 4
    (short,) = status.bounded or ()
    assert (short.field, short.asked, short.granted, short.policy) == (
        "status.desiredReplicas",
        "4",
        "2",
        "prod",
    )


def test_the_policy_status_reports_devices_wanted_granted_and_used() -> None:
    fleet = fleet_of(4, a=4, b=3)
    fleet.run()
    assert fleet.plan is not None
    status = fleet.plan.policies[0].status
    (spent,) = status.budgets or ()
    assert (spent.wanted, spent.granted, spent.used) == (7, 4, 4)
    exhausted = next(
        condition for condition in status.conditions or () if condition.type == "BudgetExhausted"
    )
    assert (str(exhausted.status), exhausted.reason) == ("True", "MoreWanted")


def test_a_pool_on_the_cpu_or_outside_the_policy_is_not_limited() -> None:
    fleet = Fleet((budget(1),))
    fleet.add("cpu", replicas=3, accelerator={"resourceName": GPU, "count": 0})
    fleet.add("gpu", replicas=3)
    plans = fleet.run()
    assert fleet.replicas() == {"cpu": 3, "gpu": 1}
    assert reason(plans["cpu"], "BudgetLimited") == "False/NoBudget"


def test_a_pool_without_a_grant_is_not_ready_for_that_reason() -> None:
    plans = fleet_of(0, a=2).run()
    assert reason(plans["a"], "Ready") == "False/NoDevicesGranted"


def test_a_pool_outside_the_pass_is_enqueued_when_its_grant_changes() -> None:
    fleet = fleet_of(4, a=4, b=1)
    assert fleet.replicas() == {"a": 3, "b": 1}
    fleet.worlds["b"].edit_spec(replicas=3)
    enqueued: set[str] = set()
    for _ in range(14):
        fleet.run("b")
        assert fleet.plan is not None
        enqueued |= fleet.plan.affected
    assert enqueued == {"uid-a"}
    fleet.run("a")
    assert fleet.replicas() == {"a": 2, "b": 1}


def test_the_gaining_pool_starts_replicas_once_the_losing_pool_has_drained() -> None:
    fleet = fleet_of(4, a=4, b=1)
    fleet.worlds["b"].edit_spec(replicas=3)
    for _ in range(14):
        fleet.run()
    assert fleet.replicas() == {"a": 2, "b": 1}
    pods = fleet.worlds["a"].pods
    fleet.worlds["a"].pods = (*pods[:2], replace(pods[2], terminating=True))
    fleet.run()
    assert fleet.replicas() == {"a": 2, "b": 1}
    fleet.worlds["a"].pods = pods[:2]
    fleet.run()
    assert fleet.replicas() == {"a": 2, "b": 2}


def test_an_edit_of_the_budget_applies_in_the_same_pass() -> None:
    fleet = fleet_of(4, a=4, b=3)
    fleet.policies = (budget(2),)
    fleet.run()
    assert fleet.replicas() == {"a": 1, "b": 1}
    fleet.policies = (budget(7),)
    fleet.worlds["a"].pods, fleet.worlds["b"].pods = (), ()
    fleet.run()
    assert fleet.replicas() == {"a": 4, "b": 3}
    fleet.policies = ()
    assert reason(fleet.run()["a"], "BudgetLimited") == "False/NoBudget"


def test_a_full_budget_rolls_without_a_surge() -> None:
    fleet = fleet_of(4, a=4, b=3)
    fleet.run()
    rolling = fleet.worlds["a"].deployment["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}
    roomy = fleet_of(9, a=4, b=3)
    rolling = roomy.worlds["a"].deployment["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_rollout_under_a_full_budget_replaces_pods_with_an_event() -> None:
    fleet = fleet_of(4, a=4, b=3)
    fleet.run()
    world = fleet.worlds["a"]
    world.pods = tuple(replace(pod, revision=world.revision) for pod in world.pods)
    world.edit_spec(template={"labels": {"v": "2"}})
    (event,) = [item for item in fleet.run()["a"].events if item.reason == "ReplacingWithoutSurge"]
    assert "policy prod has no free device" in event.message
    assert "ReplacingWithoutSurge" not in {event.reason for event in fleet.run()["a"].events}


def test_the_strategy_surge_waits_for_a_full_budget_and_leaves_the_pods_alone() -> None:
    fleet = fleet_of(4, a=4, b=3)
    world = fleet.worlds["a"]
    world.edit_spec(rollout={"strategy": "Surge"})
    fleet.run()
    world.pods = tuple(replace(pod, revision=world.revision) for pod in world.pods)
    assert "paused" not in world.deployment["spec"]
    world.edit_spec(template={"labels": {"v": "2"}})
    plan = fleet.run()["a"]
    assert world.deployment["spec"]["paused"] is True
    assert reason(plan, "Progressing") == "False/RolloutWaits"
    fleet.policies = (budget(9),)
    fleet.run()
    fleet.run()
    assert "paused" not in world.deployment["spec"]


def two_rollouts() -> Fleet:
    """Roll out two pools at once, with one free device."""
    fleet = fleet_of(7, a=3, b=3)
    for world in fleet.worlds.values():
        world.edit_spec(template=TEMPLATE)
    plans = fleet.run()
    assert (step(fleet, "a"), is_paused(fleet, "a"), is_paused(fleet, "b")) == (
        SURGING,
        False,
        True,
    )
    assert reason(plans["b"], "Progressing") == "False/RolloutWaits"
    assert "other rollouts" in message(plans["b"], "Progressing")
    assert reason(plans["b"], "Reconciling") == "True/RolloutWaits"
    return fleet


def test_pools_that_roll_out_together_surge_one_after_another() -> None:
    fleet = two_rollouts()
    first = fleet.worlds["a"]
    first.pods = tuple(replace(pod, revision=first.revision) for pod in first.pods)
    fleet.run()
    assert (step(fleet, "b"), is_paused(fleet, "b")) == (SURGING, False)


def test_a_rollout_waits_an_hour_for_the_device_of_a_stuck_one() -> None:
    fleet = two_rollouts()
    fleet.worlds["b"].now += 3590
    fleet.run()
    assert is_paused(fleet, "b")
    fleet.worlds["b"].now += 10
    (event,) = [item for item in fleet.run()["b"].events if item.reason == "ReplacingWithoutSurge"]
    assert "for an hour" in event.message
    assert (step(fleet, "b"), is_paused(fleet, "b")) == (REPLACING, False)


def test_a_rollout_waits_for_others_as_long_as_they_follow_each_other() -> None:
    fleet = fleet_of(10, a=3, b=3, c=3)
    for world in fleet.worlds.values():
        world.edit_spec(template=TEMPLATE)
    fleet.run()
    fleet.worlds["c"].now += 3000
    first = fleet.worlds["a"]
    first.pods = tuple(replace(pod, revision=first.revision) for pod in first.pods)
    fleet.run()
    assert (is_paused(fleet, "b"), is_paused(fleet, "c")) == (False, True)
    fleet.worlds["c"].now += 3000
    fleet.run()
    assert is_paused(fleet, "c")
    fleet.worlds["c"].now += 600
    fleet.run()
    assert (step(fleet, "c"), is_paused(fleet, "c")) == (REPLACING, False)


def test_pods_without_a_free_device_limit_the_budget_to_what_the_cluster_places() -> None:
    fleet = fleet_of(100, a=3, b=3)
    for name in ("a", "b"):
        world = fleet.worlds[name]
        text = f"0/1 nodes are available: 1 Insufficient {GPU}."
        world.pods = (*world.pods[:2], waiting(f"{name}-x", world.now - 31, text))
    plans = fleet.run()
    assert reason(plans["a"], "BudgetLimited") == "True/ClusterShort"
    assert "the cluster can schedule 4 for the pools of policy prod" in message(
        plans["a"], "BudgetLimited"
    )
    assert sum(fleet.replicas().values()) == 5  # one pod stays pending


def test_pods_that_wait_for_something_else_limit_nothing() -> None:
    fleet = fleet_of(100, a=3, b=3)
    world = fleet.worlds["a"]
    text = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    world.pods = (*world.pods[:2], waiting("a-x", world.now - 31, text))
    assert reason(fleet.run()["a"], "BudgetLimited") == "False/WithinBudget"


def test_a_weight_is_bounded_by_a_policy() -> None:
    fleet = Fleet((budget(4, bounds={"weight": {"max": 100}}),))
    fleet.add("greedy", replicas=4, weight=10_000)
    fleet.add("modest", replicas=4)
    fleet.run()
    assert fleet.replicas() == {"greedy": 2, "modest": 2}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pool_in_hold_regains_its_count_once_the_budget_has_room(restarted: bool) -> None:
    fleet = Fleet((budget(8),))
    fleet.add("a", replicas=4, scaling={"mode": "Hold"})
    fleet.add("b", replicas=4)
    fleet.run()
    fleet.run_pods()
    fleet.policies = (budget(4),)
    for _ in range(3):
        plans = fleet.run()
        assert fleet.replicas() == {"a": 2, "b": 2}
        assert plans["a"].status.desired_replicas == 4
        assert reason(plans["a"], "BudgetLimited") == "True/BudgetShort"
    fleet.run_pods()
    if restarted:
        fleet.worlds["a"].states.clear()
        fleet.ledger = QuotaLedger()
    fleet.policies = (budget(8),)
    fleet.run()
    assert fleet.replicas() == {"a": 4, "b": 4}


def test_a_pool_in_hold_cedes_replicas_to_needs_and_regains_them() -> None:
    fleet = Fleet((budget(8),))
    fleet.add("a", replicas=4, scaling={"mode": "Hold"})
    for name in ("b", "c"):
        fleet.add(name, replicas=1)
    fleet.run()
    fleet.run_pods()
    for name in ("b", "c"):
        fleet.worlds[name].edit_spec(replicas=4)
    for _ in range(30):
        fleet.run()
        fleet.run_pods()
    assert fleet.replicas()["a"] == 3
    for name in ("b", "c"):
        fleet.worlds[name].edit_spec(replicas=1)
    for _ in range(3):
        fleet.run()
        fleet.run_pods()
    assert fleet.replicas() == {"a": 4, "b": 1, "c": 1}


def test_hold_that_was_set_while_the_operator_was_down_freezes_the_live_count() -> None:
    fleet = fleet_of(4, a=4, b=4)
    fleet.worlds["a"].edit_spec(scaling={"mode": "Hold"})
    fleet.worlds["a"].states.clear()
    assert fleet.run()["a"].status.desired_replicas == 2


def test_a_pod_that_waits_for_other_nodes_limits_no_pool_with_another_node_selection() -> None:
    fleet = Fleet((budget(100),))
    fleet.add("a", replicas=3, template={"nodeSelector": {"gpu": "a100"}})
    fleet.add("b", replicas=3)
    fleet.run()
    fleet.run_pods()
    world = fleet.worlds["a"]
    text = f"0/5 nodes are available: 2 Insufficient {GPU}, 3 node(s) didn't match Pod's node affinity/selector."
    world.pods = (*world.pods[:2], waiting("a-x", world.now - 31, text))
    plans = fleet.run()
    assert reason(plans["a"], "BudgetLimited") == "True/ClusterShort"
    assert "that select the same nodes" in message(plans["a"], "BudgetLimited")
    assert reason(plans["b"], "BudgetLimited") == "False/WithinBudget"
    assert step(fleet, "b") == {"maxSurge": 1, "maxUnavailable": 0}
