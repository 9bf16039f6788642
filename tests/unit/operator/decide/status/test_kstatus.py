"""Stalled and Reconciling: present only where they apply, in every state of a pool."""

from dataclasses import replace

import pytest

from penstock_operator.decide.plan import PoolPlan
from tests.unit.operator.decide.status.states import STATES, State, image_not_allowed
from tests.unit.operator.decide.world import (
    CONFIG,
    failing,
    message,
    policy,
    pool,
    reason,
    settled,
)

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


NO_MORE = {
    "image missing": 0,
    "rolling to a missing image": 1,
    "model fault": 0,
    "unschedulable for 10 minutes": 0,
    "image not allowed": 1,
}


@pytest.mark.parametrize("state", STATES)
def test_pods_are_limited_only_where_they_cannot_start(state: str) -> None:
    figures = STATES[state].world().run().figures
    assert figures.variant.startable == NO_MORE.get(state)


def test_pods_of_the_template_before_a_forbidden_edit_are_not_limited() -> None:
    world = settled()
    bounds = {"template": {"allowedImages": [CONFIG.default_runtime_image]}}
    world.policies = (policy("trusted", bounds=bounds),)
    world.edit_spec(runtime={"image": "elsewhere.example/runtime:1"})
    plan = world.run()
    assert abnormal(plan) == "Stalled/TemplateNotAllowed"
    assert plan.figures.variant.startable is None


def test_pods_of_a_template_that_is_not_allowed_are_limited_to_those_that_run() -> None:
    world = settled(pool=pool(replicas=2))
    bounds = {"template": {"allowedImages": ["trusted.example/*"]}}
    world.policies = (policy("trusted", bounds=bounds),)
    world.edit_spec(replicas=5)
    assert world.run().figures.variant.startable == 2


def test_pods_that_start_count_with_those_that_are_ready() -> None:
    world = settled(pool=pool(replicas=3))
    starting = replace(world.pods[1], ready=False)
    broken = failing("chat-3", "ImagePullBackOff", "not found", revision=world.revision)
    world.pods = (world.pods[0], starting, broken)
    assert world.run().figures.variant.startable == 2


def test_conditions_of_a_first_visit_carry_the_observed_generation() -> None:
    plan = STATES["rolling"].world().run()
    observed = {item.observed_generation for item in plan.status.conditions or ()}
    assert observed == {plan.status.observed_generation}
