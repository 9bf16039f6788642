"""A pool whose template was edited: it claims what its new pods ask for, and holds what the old ones still have."""

from dataclasses import replace

import pytest

from tests.unit.operator.decide.budgets.town import GPU, Town, budget, delete_and_wait, town
from tests.unit.operator.decide.world import known, reason

OTHERS = [
    {"resourceName": "nvidia.com/mig-1g.10gb", "count": 1},
    {"resourceName": GPU, "count": 0},
]


@pytest.mark.parametrize("accelerator", OTHERS, ids=["another device", "the CPU"])
def test_devices_that_pods_of_an_earlier_template_hold_are_nobodys_else(
    accelerator: dict[str, object],
) -> None:
    made = town(4, a=2, b=4)
    world = made.worlds["a"]
    world.edit_spec(accelerator=accelerator)
    for _ in range(3):
        plans = made.go()
        assert made.replicas() == {"a": 2, "b": 2}
    assert reason(plans["a"], "BudgetLimited") == "False/NoBudget"
    assert reason(plans["b"], "BudgetLimited") == "True/WaitingForDrain"
    (spent,) = known(known(made.plan).policies[0].status.budgets)
    assert (spent.wanted, spent.granted, spent.used) == (4, 4, 4)
    world.pods = (world.pods[0], replace(world.pods[1], terminating=True))
    made.go()
    assert made.replicas()["b"] == 2
    world.pods = world.pods[:1]
    made.go()
    assert made.replicas()["b"] == 3
    world.pods = ()
    made.go()
    assert made.replicas()["b"] == 4


def test_what_a_pool_held_before_its_edit_is_told_to_nobody_as_a_pool() -> None:
    made = town(4, a=2, b=4)
    made.worlds["a"].edit_spec(accelerator=OTHERS[0])
    made.go()
    made.policies = (budget(3),)
    made.go("b")
    made.worlds["a"].pods = ()
    made.go("a")
    assert known(made.plan).affected == {"uid-b"}
    assert set(made.ledger.grants) == {"uid-b"}


def test_a_pool_deleted_in_mid_rollout_is_waited_for_like_any_other() -> None:
    made = town(4, a=2, b=4)
    made.worlds["a"].edit_spec(accelerator=OTHERS[0])
    made.go()
    delete_and_wait(made)


def test_an_edit_that_is_taken_back_claims_again_what_is_still_held() -> None:
    made = town(4, a=2, b=4)
    made.worlds["a"].edit_spec(accelerator=OTHERS[0])
    made.go()
    made.worlds["a"].edit_spec(accelerator={"resourceName": GPU, "count": 1})
    for _ in range(15):
        made.go()
    assert made.replicas() == {"a": 2, "b": 2}


def test_a_pool_does_not_leave_its_budget_by_a_template_that_is_refused() -> None:
    images = {"template": {"allowedImages": ["registry.example/"]}}
    made = Town((budget(4, bounds=images),))
    for name in ("a", "b"):
        made.add(name, replicas=2)
    made.go()
    made.run_pods()
    made.go()
    made.worlds["a"].edit_spec(
        replicas=4,
        accelerator={"resourceName": "example.com/other", "count": 1},
        runtime={"image": "elsewhere.example/runtime:1"},
    )
    plans = made.go()
    assert reason(plans["a"], "UpToDate") == "False/TemplateNotAllowed"
    assert reason(plans["a"], "BudgetLimited") == "True/BudgetShort"
    assert made.replicas() == {"a": 2, "b": 2}
