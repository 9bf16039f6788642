"""Batch work of a pool with variants: replicas for it, what is reported, and what a budget counts as need."""

from dataclasses import replace
from typing import Any

import pytest

from penstock_api import names
from penstock_api.types.status import CostStatus
from penstock_operator.decide.quota_ledger import QuotaRequest
from penstock_operator.observed import BatchLoad
from penstock_operator.variants import VariantFigures, VariantOwner
from tests.unit.operator.decide.variant_pools.parent_world import (
    OBJECTIVE,
    ParentWorld,
    measured,
    parent,
)
from tests.unit.operator.decide.world import World, known, policy, pool

HOUR = 3600.0


def filled(rate: float, mode: str = "Auto", **batch_work: Any) -> ParentWorld:
    """Return a pool whose slow variant serves the demand, with a batch that needs `rate` rows a second."""
    world = parent(
        objectives=OBJECTIVE,
        replicas=1,
        scaling={"mode": mode, "maxReplicas": 8},
        batchWork={"maxReplicas": 2, **batch_work},
    )
    world.settle()
    measured(world, fast=100, slow=50, need=120)
    for _ in range(3):
        world.settle()
    world.batches = (BatchLoad(int(rate * HOUR), world.now, world.now + HOUR),)
    return world


def test_batch_work_adds_replicas_and_they_go_with_it() -> None:
    world = filled(70.0)
    assert world.counts() == {"chat-fast": 0, "chat-slow": 3}
    status = world.settle().status
    assert world.counts() == {"chat-fast": 0, "chat-slow": 4}
    assert world.pools["chat-slow"].annotations == {names.ANNOTATION_BATCH_REPLICAS: "1"}
    shown = known(known(status.scaling).batch_work)
    assert (shown.lines_left, shown.lines_per_second) == (70 * 3600, "70.00")
    assert (shown.replicas, shown.added_replicas) == ("1.40", 1)
    assert status.desired_replicas == 4
    world.settle()
    world.batches = ()
    status = world.settle().status
    assert world.counts() == {"chat-fast": 0, "chat-slow": 3}
    assert world.pools["chat-slow"].annotations == {}
    assert status.scaling is None


def test_a_deadline_of_the_pool_is_planned_for() -> None:
    world = filled(30.0, deadlineSeconds=1800)
    world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 4}, "60 rows/s, of which 30 are left"


@pytest.mark.parametrize(("mode", "desired"), [("Manual", 1), ("Recommend", 4)])
def test_other_modes_add_none(mode: str, desired: int) -> None:
    world = filled(70.0, mode)
    status = world.settle().status
    assert (sum(world.counts().values()), status.desired_replicas) == (1, desired)
    assert all(not each.annotations for each in world.pools.values())


def test_nothing_is_planned_while_a_serving_variant_has_no_signals() -> None:
    world = filled(70.0)
    world.settle()
    world.figures["chat-slow"] = VariantFigures(None, None, 1.0, 20.0)
    status = world.settle().status
    assert world.counts() == {"chat-fast": 0, "chat-slow": 4}
    assert status.scaling is None


def test_its_cost_is_the_sum_of_the_variants() -> None:
    world = filled(70.0)
    costs = {"chat-fast": ("4.00", None), "chat-slow": ("3.00", "0.75")}
    for name, (hour, share) in costs.items():
        each = world.pools[name]
        shown = CostStatus(currency="EUR", per_hour=hour, batch_work_per_hour=share, message="")
        world.pools[name] = replace(each, status=each.status.model_copy(update={"cost": shown}))
    cost = known(world.run().status.cost)
    assert (cost.per_hour, cost.batch_work_per_hour, cost.batch_work_percent) == (
        "7.00",
        "0.75",
        None,
    )


def request(text: str, owner: VariantOwner | None) -> QuotaRequest:
    """Return the request of a pool of three replicas, whose annotation is `text`."""
    budget = policy("budget", gpuBudgets=[{"resourceName": "nvidia.com/gpu", "count": 4}])
    subject = pool(replicas=3, accelerator={"count": 1}, scaling={"mode": "Recommend"})
    world = World(pool=replace(subject, variant_of=owner), policies=(budget,))
    world.annotate(names.ANNOTATION_BATCH_REPLICAS, text)
    (asked,) = world.whole_plan().ledger.requests.values()
    return asked


@pytest.mark.parametrize(
    ("text", "need", "floor"),
    [("2", 1.0, 1), ("3", 0.0, 0), ("9", 0.0, 0), ("-1", 3.0, 1), ("x", 3.0, 1)],
)
def test_a_budget_counts_the_replicas_for_batch_work_as_no_need(
    text: str, need: float, floor: int
) -> None:
    asked = request(text, VariantOwner("uid-parent", "parent"))
    assert (asked.requested, asked.need, asked.floor) == (3, need, floor)
    assert request(text, None).need == 3.0
