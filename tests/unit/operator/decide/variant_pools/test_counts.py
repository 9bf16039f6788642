"""Replicas of each variant by mode, and the status and conditions that report them."""

from dataclasses import replace
from typing import Any

import pytest

from penstock_api.types.pool import PoolSpec
from penstock_operator.decide.variants.decision import ROUTED_SECONDS
from penstock_operator.variants import VariantFigures
from tests.unit.operator.decide.variant_pools.parent_world import (
    FAST,
    OBJECTIVE,
    SLOW,
    ParentWorld,
    automatic,
    condition_of,
    load_of,
    measured,
    parent,
)


def manual(replicas: int, *variants: dict[str, Any]) -> ParentWorld:
    return parent(*variants, replicas=replicas, scaling={"mode": "Manual"})


@pytest.mark.parametrize(
    ("replicas", "counts"), [(0, (0, 1)), (1, (0, 1)), (3, (2, 1)), (5, (2, 3)), (9, (2, 4))]
)
def test_manual_fills_minimums_first_and_then_in_order(
    replicas: int, counts: tuple[int, int]
) -> None:
    world = manual(
        replicas, {**FAST, "maxReplicas": 2}, {**SLOW, "minReplicas": 1, "maxReplicas": 4}
    )
    world.settle()
    assert tuple(world.counts().values()) == counts


def test_manual_reports_bounds_that_change_the_count() -> None:
    world = manual(9, {**FAST, "maxReplicas": 2})
    world.settle()
    scaling = condition_of(world.run(), "Scaling")
    assert scaling.reason == "VariantBounds"
    assert "spec.replicas is 9" in scaling.message


def test_the_status_sums_the_variants_and_lists_them() -> None:
    world = manual(3, {**FAST, "maxReplicas": 2}, {**SLOW})
    world.settle()
    world.figures["chat-fast"] = VariantFigures(100.0, load_of(20), 2.5, 30.0)
    status = world.run().status
    assert (status.replicas, status.ready_replicas, status.ready_replicas_of) == (3, 3, "3/3")
    assert status.variant_replicas == "fast 2/2, slow 1/1"
    fast, slow = status.variants or ()
    assert (fast.rows_per_second_per_replica, fast.per_replica_hour) == ("100.0", "2.50")
    assert (slow.rows_per_second_per_replica, slow.per_replica_hour) == (None, None)


def test_the_status_lists_no_setting_that_a_mix_ignores() -> None:
    scaling = {
        "mode": "Auto",
        "scaleDown": {"maxPercentPerMinute": 10, "stabilizationSeconds": 60},
        "gpuUtilization": {"lowPercent": 40},
    }
    fields = {each.field for each in parent(scaling=scaling).run().status.effective or ()}
    assert "scaling.scaleDown.stabilizationSeconds" in fields
    assert not fields & {
        "scaling.scaleDown.maxPercentPerMinute",
        "scaling.gpuUtilization.lowPercent",
    }


def test_the_status_names_the_prometheus_of_the_variants_for_the_plugin() -> None:
    world = manual(2)
    world.settle()
    assert world.run().status.prometheus_url is None
    slow = world.pools["chat-slow"]
    known = slow.status.model_copy(update={"prometheus_url": "http://prometheus:9090"})
    world.pools["chat-slow"] = replace(slow, status=known)
    assert world.run().status.prometheus_url == "http://prometheus:9090"


def test_a_pool_is_ready_while_one_variant_serves() -> None:
    world = manual(2, {**FAST, "maxReplicas": 1}, {**SLOW})
    world.settle(ready=False)
    assert condition_of(world.run(), "Ready").reason == "ReplicasUnavailable"
    world.make_ready("chat-slow")
    ready = condition_of(world.run(), "Ready")
    assert (ready.status, ready.reason) == ("True", "SomeReplicasReady")
    assert "fast 0/1, slow 1/1" in ready.message
    world.make_ready()
    assert condition_of(world.run(), "Ready").reason == "AllReplicasReady"


def test_without_a_gateway_the_split_is_by_connections() -> None:
    world = manual(1)
    split = condition_of(world.settle(), "SplitByCapacity")
    assert (split.status, split.reason) == ("False", "ByConnections")


def test_auto_takes_the_cheapest_mix() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=50, need=120)
    world.settle()
    world.settle()
    world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 3}
    assert condition_of(world.run(), "Scaling").reason == "Acting"


def test_replicas_leave_only_after_their_replacement_is_ready() -> None:
    world = automatic()
    world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 0}
    measured(world, fast=100, slow=50, need=80)
    world.settle(ready=False)
    assert world.counts() == {"chat-fast": 1, "chat-slow": 2}
    world.settle(ready=False)
    assert world.counts() == {"chat-fast": 1, "chat-slow": 2}
    world.make_ready()
    world.run()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 2}, "not every node routes to them yet"
    world.now += ROUTED_SECONDS
    world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 2}


def test_a_replica_that_is_leaving_replaces_none() -> None:
    """The last Ready replica of slow drains, as its pool's status does not say yet, when fast may have none any more."""
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=6, need=30)
    world.settle()
    world.settle()
    world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 0}
    slow = world.pools["chat-slow"]
    world.pools["chat-slow"] = replace(slow, status=slow.status.model_copy(update={"ready_replicas": 1}))  # fmt: skip
    fast, other = world.pool.spec.variants or ()
    variants = (fast.model_copy(update={"max_replicas": 0}), other)
    world.pool = replace(world.pool, spec=world.pool.spec.model_copy(update={"variants": variants}))
    world.now += ROUTED_SECONDS
    world.settle(ready=False)
    assert world.counts() == {"chat-fast": 1, "chat-slow": 5}


def test_a_variant_that_misses_the_objective_gets_none() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=0, need=120)
    world.settle()
    assert world.counts() == {"chat-fast": 2, "chat-slow": 0}


def test_a_lower_demand_must_last_before_replicas_leave() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=0, need=250)
    world.settle()
    assert world.counts() == {"chat-fast": 3, "chat-slow": 0}
    measured(world, fast=100, slow=0, need=50)
    world.settle()
    assert world.counts() == {"chat-fast": 3, "chat-slow": 0}
    world.now += 130
    world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 0}


def test_a_variant_without_signals_does_not_keep_the_others_from_growing() -> None:
    world = parent({**FAST, "minReplicas": 1}, SLOW, objectives=OBJECTIVE, scaling={"mode": "Auto"})
    world.settle()
    measured(world, fast=100, slow=50, need=120)
    world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 1}
    world.figures["chat-fast"] = VariantFigures(None, None, 4.0, 20.0)
    world.figures["chat-slow"] = VariantFigures(50.0, load_of(300), 1.0, 20.0)
    plan = world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 4}
    scaling = condition_of(plan, "Scaling")
    assert scaling.reason == "SignalsAbsent"
    assert "fast: their Ready replicas stay" in scaling.message


def test_counts_stay_while_no_serving_variant_has_signals() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=0, need=250)
    world.settle()
    world.figures = {}
    world.now += 600
    plan = world.settle()
    assert world.counts() == {"chat-fast": 3, "chat-slow": 0}
    assert condition_of(plan, "Scaling").reason == "SignalsAbsent"


def test_capacities_outlive_a_restart_of_the_operator() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=50, need=120)
    world.settle()
    world.state, world.figures = None, {}
    (fast, slow) = world.run().status.variants or ()
    assert (fast.rows_per_second_per_replica, slow.rows_per_second_per_replica) == ("100.0", "50.0")


def test_demand_beyond_every_mix_is_reported() -> None:
    world = automatic(maxReplicas=2)
    world.settle()
    measured(world, fast=100, slow=50, need=900)
    plan = world.settle()
    assert condition_of(plan, "Scaling").reason == "CapacityExhausted"
    assert sum(world.counts().values()) == 2


def test_hold_keeps_the_counts() -> None:
    world = manual(3)
    world.settle()
    spec = world.pool.spec
    assert spec.scaling is not None
    frozen = spec.scaling.model_validate({"mode": "Hold"})
    world.pool = replace(
        world.pool, spec=spec.model_copy(update={"scaling": frozen, "replicas": 1})
    )
    world.settle()
    assert sum(world.counts().values()) == 3


def test_a_new_pool_in_mode_hold_has_the_requested_replicas() -> None:
    world = parent({**FAST, "maxReplicas": 2}, SLOW, replicas=3, scaling={"mode": "Hold"})
    world.settle()
    assert world.counts() == {"chat-fast": 2, "chat-slow": 1}
    world.settle()
    assert world.counts() == {"chat-fast": 2, "chat-slow": 1}


def test_a_restart_of_the_operator_begins_the_hold_again() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=0, need=250)
    world.settle()
    world.state = None
    measured(world, fast=100, slow=0, need=50)
    world.settle()
    world.now += 100
    world.settle()
    assert world.counts() == {"chat-fast": 3, "chat-slow": 0}
    world.now += 130
    world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 0}


def test_a_restart_in_mid_exchange_requests_no_more_and_ends_it() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=50, need=80)
    world.settle()
    world.state = None
    world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 2}
    world.now += 130
    world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 2}


def test_large_replicas_serve_what_small_ones_cannot_within_the_maximum() -> None:
    world = parent(SLOW, FAST, objectives=OBJECTIVE, scaling={"mode": "Auto", "maxReplicas": 4})
    world.settle()
    world.figures = {
        "chat-fast": VariantFigures(100.0, load_of(240), 12.0, 20.0),
        "chat-slow": VariantFigures(10.0, load_of(0), 1.0, 20.0),
    }
    plan = world.settle()
    assert world.counts()["chat-fast"] == 3
    assert condition_of(plan, "Scaling").reason == "Acting"


def test_beyond_the_maximum_the_replicas_that_serve_most_stay() -> None:
    world = parent(SLOW, FAST, objectives=OBJECTIVE, scaling={"mode": "Auto", "maxReplicas": 2})
    world.settle()
    measured(world, fast=100, slow=50, need=900)
    world.settle()
    world.settle()
    world.settle()
    assert world.counts() == {"chat-fast": 2, "chat-slow": 0}


def test_without_demand_the_cheapest_variant_has_the_minimum() -> None:
    world = automatic(minReplicas=2)
    world.settle()
    measured(world, fast=100, slow=50, need=0)
    world.settle()
    world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 2}


def test_every_variant_may_be_at_zero_while_the_pool_keeps_one_replica() -> None:
    world = parent(
        {**FAST, "minReplicas": 0},
        {**SLOW, "minReplicas": 0},
        objectives=OBJECTIVE,
        scaling={"mode": "Auto", "maxReplicas": 8},
    )
    world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 0}
    measured(world, fast=100, slow=50, need=0)
    for _ in range(3):
        world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 1}
    assert condition_of(world.run(), "Ready").reason == "AllReplicasReady"
    measured(world, fast=100, slow=5, need=80)
    for _ in range(3):
        world.settle()
    assert world.counts() == {"chat-fast": 1, "chat-slow": 0}, "a variant at zero serves again"


def test_in_mode_manual_a_pool_at_zero_says_that_it_serves_nothing() -> None:
    world = manual(0, {**FAST, "minReplicas": 0}, {**SLOW})
    ready = condition_of(world.settle(), "Ready")
    assert world.counts() == {"chat-fast": 0, "chat-slow": 0}
    assert (ready.status, ready.reason) == ("False", "ScaledToZero")


def test_a_variant_that_misses_the_objective_has_no_part_of_the_minimum() -> None:
    world = automatic(minReplicas=2)
    world.settle()
    measured(world, fast=0, slow=50, need=0)
    world.settle()
    world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 2}


def test_an_edit_lets_a_variant_without_replicas_be_measured_again() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=0, need=120)
    world.settle()
    world.figures["chat-slow"] = VariantFigures(None, None, 1.0, 20.0)
    world.settle()
    assert world.counts() == {"chat-fast": 2, "chat-slow": 0}
    looser = [{**OBJECTIVE[0], "milliseconds": 5000}]
    spec = world.pool.spec.model_dump(mode="json", exclude_none=True) | {"objectives": looser}
    world.pool = replace(world.pool, spec=PoolSpec.model_validate(spec))
    for _ in range(3):
        world.settle()
    assert world.counts() == {"chat-fast": 2, "chat-slow": 1}
    world.figures["chat-slow"] = VariantFigures(50.0, load_of(0), 1.0, 20.0)
    for _ in range(3):
        world.settle()
    assert world.counts() == {"chat-fast": 0, "chat-slow": 3}


def test_the_counts_stay_while_every_variant_misses_the_objective() -> None:
    world = automatic()
    world.settle()
    measured(world, fast=100, slow=0, need=350)
    world.settle()
    assert world.counts() == {"chat-fast": 4, "chat-slow": 0}
    measured(world, fast=0, slow=0, need=350)
    world.now += 600
    plan = world.settle()
    assert world.counts() == {"chat-fast": 4, "chat-slow": 0}
    assert condition_of(plan, "Scaling").reason == "CapacityExhausted"
