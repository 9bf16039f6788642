"""Policies that select a pool with variants: their objectives, batch sizes and bounds on replicas."""

from dataclasses import replace
from typing import Any

import pytest

from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import BoundedField
from penstock_operator.observed import PolicyObject
from penstock_operator.variants import VariantFigures
from tests.unit.operator.decide.variant_pools.parent_world import (
    FAST,
    OBJECTIVE,
    SLOW,
    ParentWorld,
    automatic,
    measured,
    parent,
)
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


def at_most(replicas: int) -> tuple[PolicyObject, ...]:
    return (policy("cap", bounds={"replicas": {"max": replicas}}),)


def edited(world: ParentWorld, **changes: Any) -> None:
    spec = world.pool.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    world.pool = replace(world.pool, spec=PoolSpec.model_validate({**spec, **changes}))


@pytest.mark.parametrize("mode", ["Auto", "Manual", "Recommend", "Hold"])
@pytest.mark.parametrize(("bound", "counts"), [(1, (1, 0)), (3, (2, 1)), (4, (2, 2))])
def test_the_bound_of_a_policy_limits_the_sum_of_the_minimums(
    mode: str, bound: int, counts: tuple[int, int]
) -> None:
    world = parent({**FAST, "minReplicas": 2}, {**SLOW, "minReplicas": 2}, scaling={"mode": mode})
    world.policies = at_most(bound)
    for _ in range(3):
        plan = world.settle()
    assert tuple(world.counts().values()) == counts
    lowered = {
        item.field: item.granted
        for item in plan.status.bounded or ()
        if item.field.startswith("spec.variants")
    }
    expected = {
        "spec.variants[fast].minReplicas": counts[0],
        "spec.variants[slow].minReplicas": counts[1],
    }
    assert lowered == {field: str(count) for field, count in expected.items() if count < 2}


def test_the_status_names_the_policy_whose_bound_lowers_a_minimum() -> None:
    world = parent(
        {**FAST, "minReplicas": 2},
        {**SLOW, "minReplicas": 2},
        replicas=1,
        scaling={"mode": "Manual"},
    )
    world.policies = at_most(3)
    assert world.run().status.bounded == (
        BoundedField(field="spec.variants[slow].minReplicas", asked="2", granted="1", policy="cap"),
    )


def test_hold_keeps_the_counts_within_every_bound() -> None:
    world = parent({**FAST, "maxReplicas": 4}, dict(SLOW), replicas=6, scaling={"mode": "Manual"})
    world.settle()
    edited(world, scaling={"mode": "Hold"}, replicas=1)
    world.settle()
    assert world.counts() == {"chat-fast": 4, "chat-slow": 2}
    edited(world, variants=[{**FAST, "maxReplicas": 3}, {**SLOW, "minReplicas": 4}])
    world.settle()
    assert world.counts() == {"chat-fast": 3, "chat-slow": 4}
    world.policies = at_most(5)
    world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 4}
    world.policies = at_most(2)
    world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 2}


def priced_at(per_hour: str) -> PolicyObject:
    entry = {"name": "gpu", "resourceName": "nvidia.com/gpu", "perHour": per_hour}
    return policy("prices", pricing={"currency": "EUR", "prices": [entry]})


def shown_prices(world: ParentWorld) -> list[str | None]:
    return [each.per_replica_hour for each in world.settle().status.variants or ()]


def test_a_price_outlives_the_pods_and_a_restart_until_the_prices_change() -> None:
    world = automatic()
    world.policies = (priced_at("2.50"),)
    world.settle()
    measured(world, fast=100, slow=50, need=120)
    assert shown_prices(world) == ["4.00", "1.00"]
    world.figures["chat-slow"] = VariantFigures(None, None, None, 20.0, template_per_hour=3.0)
    assert shown_prices(world) == ["4.00", "1.00"]
    world.state = None
    assert shown_prices(world) == ["4.00", "1.00"]
    world.policies = (priced_at("5.00"),)
    assert shown_prices(world) == ["4.00", "3.00"]
    world.policies = ()
    world.figures["chat-slow"] = VariantFigures(None, None, None, 20.0)
    assert shown_prices(world) == ["4.00", None]
