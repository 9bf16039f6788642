"""Policies that select a pool with variants: their objectives, batch sizes and bounds on replicas."""

from typing import Any

import pytest

from penstock_operator.observed import PolicyObject
from penstock_operator.variants import VariantFigures
from tests.unit.operator.decide.variant_pools.parent_world import OBJECTIVE, measured, parent
from tests.unit.operator.decide.world import policy


def objective_by_policy(milliseconds: int, **more: Any) -> tuple[PolicyObject, ...]:
    objective = {**OBJECTIVE[0], "milliseconds": milliseconds}
    return (policy("objective", defaults={"objectives": [objective], **more}),)


@pytest.mark.parametrize("change", ["objective", "batch size", "restart"])
def test_what_missed_the_objective_is_measured_again_after(change: str) -> None:
    world = parent(scaling={"mode": "Auto", "maxReplicas": 8})
    world.policies = objective_by_policy(100)
    world.settle()
    measured(world, fast=100, slow=0, need=120)
    world.settle()
    world.figures["chat-slow"] = VariantFigures(None, None, 1.0, 20.0)
    for _ in range(3):
        world.settle()
    assert world.counts() == {"chat-fast": 2, "chat-slow": 0}
    if change == "restart":
        world.state = None
    elif change == "objective":
        world.policies = objective_by_policy(10_000)
    else:
        world.policies = objective_by_policy(100, batching={"size": {"max": 4}})
    world.settle()
    assert world.counts() == {"chat-fast": 2, "chat-slow": 1}
