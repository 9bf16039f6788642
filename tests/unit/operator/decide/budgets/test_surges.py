"""Surges under one budget: free devices go to one rollout after another, and a surge ends only without room."""

from dataclasses import replace

import pytest

from penstock_operator.decide.manifests.workload import waiting_workload
from penstock_operator.decide.quota_ledger import SurgeRoom, SurgeStage
from penstock_operator.observed import Rejection
from penstock_operator.reconcile_state import PoolState, child_key
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
from tests.unit.operator.decide.budgets.requests import quota_request, rooms, settled
from tests.unit.operator.decide.world import message, pod, reason

NO_DEVICE = f"0/4 nodes are available: 4 Insufficient {GPU}."


def first_pod_surges(fleet: Fleet, name: str) -> None:
    """Bind the additional pod of a rollout; it is not Ready yet."""
    world = fleet.worlds[name]
    new = pod(f"{name}-new", ready=False, revision=world.revision)
    world.pods = (*world.pods, new)


def second_pod_waits_for_the_first_old_one(seconds: int) -> Fleet:
    """Two rollouts share four devices: the second new pod of `a` waits for its draining pod's device."""
    fleet = fleet_of(4, a=2, b=1)
    for world in fleet.worlds.values():
        world.edit_spec(template=TEMPLATE)
    fleet.run()
    assert (is_paused(fleet, "a"), is_paused(fleet, "b")) == (False, True)
    world = fleet.worlds["a"]
    drains, stays = world.pods
    world.pods = (
        replace(drains, terminating=True),
        stays,
        pod("a-new-0", revision=world.revision),
        replace(
            waiting("a-new-1", world.now - 1, NO_DEVICE),
            revision=world.revision,
        ),
    )
    for _ in range(seconds // 5):
        fleet.run()
    return fleet


@pytest.mark.parametrize("seconds", [20, 60])
def test_a_pod_that_waits_for_a_draining_device_ends_no_surge(seconds: int) -> None:
    fleet = second_pod_waits_for_the_first_old_one(seconds)
    assert (step(fleet, "a"), is_paused(fleet, "a")) == (SURGING, False)
    assert (step(fleet, "b"), is_paused(fleet, "b")) == (SURGING, True)


def test_a_device_of_a_lost_node_ends_the_surge_that_waits_for_it() -> None:
    fleet = second_pod_waits_for_the_first_old_one(60)
    world = fleet.worlds["a"]
    world.pods = world.pods[1:]
    fleet.run()
    world.now += 31
    fleet.run()
    assert step(fleet, "a") == REPLACING


def test_a_surge_whose_pod_is_bound_continues_in_a_budget_that_fills() -> None:
    fleet = fleet_of(7, a=3, b=3)
    world = fleet.worlds["a"]
    world.edit_spec(rollout={"strategy": "Surge"}, template=TEMPLATE)
    fleet.run()
    first_pod_surges(fleet, "a")
    fleet.worlds["b"].edit_spec(replicas=4)
    plans = fleet.run()
    assert reason(plans["b"], "BudgetLimited") == "True/WaitingForDrain"
    assert (step(fleet, "a"), is_paused(fleet, "a")) == (SURGING, False)


@pytest.mark.parametrize("wanted", [3, 4], ids=["as deployed", "more than deployed"])
def test_a_surge_whose_pod_is_bound_has_its_room(wanted: int) -> None:
    rolls = quota_request("a", wanted, deployed=3, staying=4, surge=SurgeStage.BOUND)
    gains = quota_request("b", 7 - wanted, deployed=3, staying=3)
    assert rooms(settled(7, rolls, gains))["a"] is SurgeRoom.FREE


def test_a_second_edit_during_a_surge_keeps_its_room() -> None:
    fleet = fleet_of(7, a=3, b=3)
    world = fleet.worlds["a"]
    world.edit_spec(template=TEMPLATE)
    fleet.run()
    first_pod_surges(fleet, "a")
    world.edit_spec(template={"labels": {"v": "3"}})
    fleet.run()
    assert (step(fleet, "a"), is_paused(fleet, "a")) == (SURGING, False)


def test_pods_that_a_scale_down_ends_are_no_surge() -> None:
    fleet = fleet_of(4, a=3, b=1)
    fleet.worlds["a"].edit_spec(rollout={"strategy": "Surge"}, template=TEMPLATE)
    fleet.run()
    for world in fleet.worlds.values():
        world.edit_spec(replicas=2)
    for _ in range(3):
        fleet.run()
        assert is_paused(fleet, "a")
    assert fleet.replicas()["a"] == 2


def of_devices(count: int) -> dict[str, object]:
    return {"resourceName": GPU, "count": count}


@pytest.mark.parametrize("others", [0, 3])
def test_an_edit_to_fewer_devices_frees_none_for_its_own_surge(others: int) -> None:
    fleet = Fleet((budget(6),))
    fleet.add("a", replicas=3, accelerator=of_devices(2))
    fleet.run()
    fleet.run_pods()
    if others:
        fleet.add("b", replicas=others)
    fleet.worlds["a"].edit_spec(accelerator=of_devices(1))
    fleet.run()
    assert step(fleet, "a") == REPLACING


def test_an_edit_to_more_devices_keeps_a_surge_whose_pod_is_bound() -> None:
    fleet = fleet_of(4, a=1)
    world = fleet.worlds["a"]
    world.edit_spec(accelerator=of_devices(2))
    fleet.run()
    first_pod_surges(fleet, "a")
    fleet.add("b", replicas=1)
    for _ in range(2):
        fleet.run()
        assert (step(fleet, "a"), is_paused(fleet, "a")) == (SURGING, False)


def test_a_shift_of_shares_ends_no_surge() -> None:
    fleet = fleet_of(6, b=1, c=3, d=1)
    fleet.worlds["b"].edit_spec(template=TEMPLATE)
    fleet.run()
    first_pod_surges(fleet, "b")
    fleet.worlds["c"].edit_spec(replicas=2)
    fleet.worlds["d"].edit_spec(replicas=2)
    fleet.run()
    assert step(fleet, "b") == SURGING


def test_a_rollout_waits_for_devices_that_pools_release() -> None:
    rolls = quota_request("a", 1, deployed=1, staying=1, surge=SurgeStage.NEXT)
    shrinks = quota_request("b", 2, deployed=3, staying=3)
    assert rooms(settled(4, rolls, shrinks))["a"] is SurgeRoom.TAKEN


REFUSED = Rejection("Deployment", "a-penstock", "Forbidden", "denied by a policy")


def a_rollout_that_cannot_begin(reason: str = REFUSED.reason) -> Fleet:
    """Roll out two pools with one free device; the Deployment of the first is not stored."""
    fleet = fleet_of(7, a=3, b=3)
    fleet.worlds["a"].rejections = (replace(REFUSED, reason=reason),)
    for world in fleet.worlds.values():
        world.edit_spec(template=TEMPLATE)
    return fleet


def test_a_rollout_whose_deployment_is_rejected_gives_its_turn_up() -> None:
    fleet = a_rollout_that_cannot_begin()
    fleet.run()
    assert (step(fleet, "b"), is_paused(fleet, "b")) == (SURGING, False)
    fleet.worlds["a"].rejections = ()
    fleet.run()
    assert is_paused(fleet, "a")
    later = fleet.worlds["b"]
    later.pods = tuple(replace(each, revision=later.revision) for each in later.pods)
    fleet.run()
    assert (step(fleet, "a"), is_paused(fleet, "a")) == (SURGING, False)


def test_rollouts_that_cannot_begin_take_the_turn_from_each_other_with_back_off() -> None:
    fleet = fleet_of(8, a=3, b=2, c=2)
    for world in fleet.worlds.values():
        world.edit_spec(template=TEMPLATE)
    fleet.run()
    first = fleet.worlds["a"]
    first.pods = tuple(replace(each, revision=first.revision) for each in first.pods)
    states, sent = {"b": PoolState(), "c": PoolState()}, dict.fromkeys("bc", 0)
    for _ in range(24):
        for name, state in states.items():
            fleet.worlds[name].rejections = (replace(REFUSED, kind="Service"), *state.rejections)
        now, plans = first.now, fleet.run()
        for name, state in states.items():
            writes = [each for each in plans[name].writes if each.kind == "Deployment"]
            rejected = {
                child_key(each): replace(REFUSED, name=f"{name}-penstock")
                for each in writes
                if state.should_retry(each, now)
            }
            sent[name] += len(rejected)
            waiting = waiting_workload(fleet.worlds[name].view())
            state.record_write_results(writes, (), rejected, now, waiting)
    assert all(state.rejections for state in states.values())
    assert max(sent.values()) <= 8


def test_a_rollout_whose_deployment_is_altered_keeps_its_turn() -> None:
    fleet = a_rollout_that_cannot_begin(Rejection.ALTERED)
    fleet.run()
    assert is_paused(fleet, "b")


def test_a_rollout_of_an_unreadable_pool_gives_its_turn_up() -> None:
    fleet = fleet_of(7, a=3, b=3)
    fleet.worlds["a"].edit_spec(template=TEMPLATE)
    fleet.worlds["a"].rejections = (replace(REFUSED, reason=Rejection.ALTERED),)
    fleet.run()
    fleet.unreadable.add("a")
    fleet.worlds["b"].edit_spec(template=TEMPLATE)
    fleet.run()
    assert (step(fleet, "b"), is_paused(fleet, "b")) == (SURGING, False)


def test_a_rollout_that_gave_up_waits_no_second_hour_if_its_write_fails() -> None:
    fleet = fleet_of(7, a=3, b=3)
    for world in fleet.worlds.values():
        world.edit_spec(template=TEMPLATE)
    fleet.run()
    last = fleet.worlds["b"]
    last.now += 3600
    last.rejections = (Rejection("Deployment", "b-penstock", "Unavailable", "no answer"),)
    fleet.run()
    assert is_paused(fleet, "b")
    last.rejections = ()
    fleet.run()
    assert (step(fleet, "b"), is_paused(fleet, "b")) == (REPLACING, False)


def test_the_hour_begins_once_other_rollouts_and_terminating_pods_alone_use_the_devices() -> None:
    fleet = fleet_of(6, a=3, b=3)
    fleet.worlds["b"].edit_spec(rollout={"strategy": "Surge"}, template=TEMPLATE)
    fleet.run()
    fleet.worlds["b"].now += 4000
    fleet.policies = (budget(7),)
    first = fleet.worlds["a"]
    first.pods = (*first.pods, replace(pod("a-drains"), terminating=True))
    fleet.worlds["b"].edit_spec(rollout={"strategy": "SurgeThenReplace"})
    fleet.run()
    assert is_paused(fleet, "b")
    fleet.worlds["b"].now += 3590
    fleet.run()
    assert is_paused(fleet, "b")
    fleet.worlds["b"].now += 10
    fleet.run()
    assert (step(fleet, "b"), is_paused(fleet, "b")) == (REPLACING, False)


@pytest.mark.parametrize("begun", [False, True])
def test_a_pool_that_is_deleted_during_its_rollout_has_no_turn(begun: bool) -> None:
    fleet = fleet_of(8, a=3, b=3)
    fleet.worlds["a"].edit_spec(template=TEMPLATE)
    if not begun:
        fleet.worlds["a"].rejections = (replace(REFUSED, reason=Rejection.ALTERED),)
    fleet.run()
    fleet.run()
    fleet.delete("a")
    fleet.policies = (budget(7),)
    fleet.worlds["b"].edit_spec(template=TEMPLATE)
    fleet.run()
    assert (step(fleet, "b"), is_paused(fleet, "b")) == (SURGING, False)


def test_a_rollout_that_surges_only_needs_help_after_an_hour_behind_others() -> None:
    fleet = fleet_of(7, a=3, b=3)
    fleet.worlds["a"].edit_spec(template=TEMPLATE)
    last = fleet.worlds["b"]
    last.edit_spec(rollout={"strategy": "Surge"}, template=TEMPLATE)
    assert reason(fleet.run()["b"], "Reconciling") == "True/RolloutWaits"
    last.now += 3600
    plan = fleet.run()["b"]
    assert is_paused(fleet, "b")
    assert reason(plan, "Stalled") == "True/RolloutWaits"
    assert "raise the budget's count" in message(plan, "Stalled")
