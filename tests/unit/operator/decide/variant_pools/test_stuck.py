"""A variant that gets no more pods for now: the others serve the rest, and one more stays requested."""

from dataclasses import replace

import pytest

from penstock_api.conditions import condition
from penstock_api.types.pod_template.template import PodTemplate
from penstock_api.types.status import PoolStatus
from penstock_operator.observed import Rejection
from tests.unit.operator.decide.variant_pools.parent_world import (
    automatic,
    condition_of,
    measured,
)


@pytest.mark.parametrize("limit", ["pods", "budget"])
def test_what_a_stuck_variant_cannot_serve_the_others_do(limit: str) -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=50, need=180)
    world.settle(ready=False)
    assert world.counts() == {"chat-fast": 1, "chat-slow": 4}
    slow = world.pools["chat-slow"]
    limited = condition("BudgetLimited", limit == "budget", reason="Why")
    status = PoolStatus(replicas=1, ready_replicas=1, conditions=(limited,))
    world.pools["chat-slow"] = replace(slow, status=status)
    if limit == "pods":
        world.figures["chat-slow"] = world.figures["chat-slow"]._replace(startable=1)
    world.settle(ready=False)
    assert world.counts() == {"chat-fast": 2, "chat-slow": 2}
    world.settle(ready=False)
    assert world.counts() == {"chat-fast": 2, "chat-slow": 2}
    world.make_ready()
    measured(world, fast=100, slow=50, need=180)
    for _ in range(3):
        world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 4}


def test_another_variant_starts_in_place_of_one_whose_pool_is_rejected() -> None:
    world = automatic()
    for _ in range(3):
        plan = world.run()
        for write in plan.writes:
            if write.manifest["metadata"]["name"] != "chat-fast":
                world.store(write)
        world.make_ready()
        world.rejections = (Rejection("InferencePool", "chat-fast", "Invalid", "too many"),)
    assert world.counts() == {"chat-slow": 1}


def test_a_stalled_pool_whose_pods_start_gets_the_replicas_of_the_mix() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=50, need=180)
    world.settle(ready=False)
    slow = world.pools["chat-slow"]
    stalled = condition("Stalled", status=True, reason="SetAside")
    status = PoolStatus(replicas=1, ready_replicas=0, conditions=(stalled,))
    world.pools["chat-slow"] = replace(slow, status=status)
    world.settle(ready=False)
    assert world.counts() == {"chat-fast": 1, "chat-slow": 4}


def test_conditions_about_an_earlier_spec_are_neither_success_nor_failure() -> None:
    world = automatic()
    world.settle()
    world.settle()
    assert "Reconciling" not in {each.type for each in world.run().status.conditions or ()}
    slow = world.pools["chat-slow"]
    stalled = condition("Stalled", status=True, reason="ImagePullFailed")
    conditions = (*(slow.status.conditions or ()), stalled)
    failed = slow.status.model_copy(update={"conditions": conditions})
    world.pools["chat-slow"] = replace(slow, status=failed)
    assert condition_of(world.run(), "Stalled").reason == "ImagePullFailed"
    spec = world.pool.spec.model_copy(update={"template": PodTemplate(labels={"v": "2"})})
    world.pool = replace(world.pool, spec=spec, generation=2)
    for _ in range(2):  # before and after the write of the variants' pools
        plan = world.settle(ready=False)
        types = {each.type for each in plan.status.conditions or ()}
        assert "Stalled" not in types
        assert condition_of(plan, "Reconciling").reason == "Scaling"
        assert condition_of(plan, "Progressing").status == "True"
