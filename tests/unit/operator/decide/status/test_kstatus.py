"""Stalled and Reconciling: present only where they apply, in every state of a pool."""

import pytest

from penstock_operator.decide.plan import PoolPlan
from tests.unit.operator.decide.status.states import STATES, State, image_not_allowed
from tests.unit.operator.decide.world import message, reason, settled

ABNORMAL = ("Stalled", "Reconciling")


def abnormal(plan: PoolPlan) -> str:
    """Return type and reason of the abnormal condition; empty without one, and never two."""
    present = [item for item in plan.status.conditions or () if item.type in ABNORMAL]
    assert [item.status for item in present] in ([], ["True"])
    return "".join(f"{item.type}/{item.reason}" for item in present)


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_each_state_has_its_abnormal_condition_or_none(state: State) -> None:
    assert abnormal(state.world().run()) == state.condition


def test_a_pool_that_heals_loses_the_condition() -> None:
    world = settled()
    serves = world.pods
    world.pods = ()
    assert abnormal(world.settle()) == "Reconciling/ReplicasUnavailable"
    world.pods = serves
    assert abnormal(world.settle()) == ""


def test_the_condition_repeats_reason_and_message_of_its_cause() -> None:
    plan = STATES["model fault"].world().run()
    assert message(plan, "Stalled") == message(plan, "Ready")
    assert "fix spec.model" in message(plan, "Stalled")


def test_a_serving_pool_whose_edit_a_policy_forbids_is_ready_and_stalled() -> None:
    plan = image_not_allowed().run()
    assert reason(plan, "Ready") == "True/AllReplicasReady"
    assert "elsewhere.example/runtime:1" in message(plan, "Stalled")


@pytest.mark.parametrize(("state", "stalled"), [("model fault", True), ("rolling", False)])
def test_the_metric_follows_the_condition(state: str, *, stalled: bool) -> None:
    assert STATES[state].world().run().figures.stalled is stalled


def test_conditions_of_a_first_visit_carry_the_observed_generation() -> None:
    plan = STATES["rolling"].world().run()
    observed = {item.observed_generation for item in plan.status.conditions or ()}
    assert observed == {plan.status.observed_generation}
