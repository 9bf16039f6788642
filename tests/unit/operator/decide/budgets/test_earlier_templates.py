"""Quota requests of a pool with an edited template: devices of the new pods, and those that old pods still use."""

from dataclasses import replace

import pytest

from tests.unit.operator.decide.budgets.fleet import (
    GPU,
    Fleet,
    budget,
    delete_and_end_pods,
    fleet_of,
)
from tests.unit.operator.decide.world import known, reason

OTHERS = [
    {"resourceName": "nvidia.com/mig-1g.10gb", "count": 1},
    {"resourceName": GPU, "count": 0},
]


@pytest.mark.parametrize("accelerator", OTHERS, ids=["another device", "the CPU"])
def test_devices_in_use_by_pods_of_an_earlier_template_are_not_granted_again(
    accelerator: dict[str, object],
) -> None:
    fleet = fleet_of(4, a=2, b=4)
    world = fleet.worlds["a"]
    world.edit_spec(accelerator=accelerator)
    for _ in range(3):
        plans = fleet.run()
        assert fleet.replicas() == {"a": 2, "b": 2}
    assert reason(plans["a"], "BudgetLimited") == "False/NoBudget"
    assert reason(plans["b"], "BudgetLimited") == "True/WaitingForDrain"
    (spent,) = known(known(fleet.plan).policies[0].status.budgets)
    assert (spent.wanted, spent.granted, spent.used) == (4, 4, 4)
    world.pods = (world.pods[0], replace(world.pods[1], terminating=True))
    fleet.run()
    assert fleet.replicas()["b"] == 2
    world.pods = world.pods[:1]
    fleet.run()
    assert fleet.replicas()["b"] == 3
    world.pods = ()
    fleet.run()
    assert fleet.replicas()["b"] == 4


def test_a_request_for_remaining_devices_is_not_reported_as_a_pool() -> None:
    fleet = fleet_of(4, a=2, b=4)
    fleet.worlds["a"].edit_spec(accelerator=OTHERS[0])
    fleet.run()
    fleet.policies = (budget(3),)
    fleet.run("b")
    fleet.worlds["a"].pods = ()
    fleet.run("a")
    assert known(fleet.plan).affected == {"uid-b"}
    assert set(fleet.ledger.grants) == {"uid-b"}


def test_devices_of_a_pool_deleted_during_a_rollout_are_free_once_its_pods_have_ended() -> None:
    fleet = fleet_of(4, a=2, b=4)
    fleet.worlds["a"].edit_spec(accelerator=OTHERS[0])
    fleet.run()
    delete_and_end_pods(fleet)


def test_an_undone_edit_requests_the_devices_in_use_again() -> None:
    fleet = fleet_of(4, a=2, b=4)
    fleet.worlds["a"].edit_spec(accelerator=OTHERS[0])
    fleet.run()
    fleet.worlds["a"].edit_spec(accelerator={"resourceName": GPU, "count": 1})
    for _ in range(15):
        fleet.run()
    assert fleet.replicas() == {"a": 2, "b": 2}


def test_a_rejected_template_does_not_remove_a_pool_from_its_budget() -> None:
    images = {"template": {"allowedImages": ["registry.example/"]}}
    fleet = Fleet((budget(4, bounds=images),))
    for name in ("a", "b"):
        fleet.add(name, replicas=2)
    fleet.run()
    fleet.run_pods()
    fleet.run()
    fleet.worlds["a"].edit_spec(
        replicas=4,
        accelerator={"resourceName": "example.com/other", "count": 1},
        runtime={"image": "elsewhere.example/runtime:1"},
    )
    plans = fleet.run()
    assert reason(plans["a"], "UpToDate") == "False/TemplateNotAllowed"
    assert reason(plans["a"], "BudgetLimited") == "True/BudgetShort"
    assert fleet.replicas() == {"a": 2, "b": 2}
