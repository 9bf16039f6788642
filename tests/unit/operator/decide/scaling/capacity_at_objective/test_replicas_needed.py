"""The replica count of CapacityAtObjective (docs/design/control-law.md#replica-count): the largest need, the hold before scale-down, and the user's guards."""

from dataclasses import replace

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.demand.load import PoolDemand
from penstock_operator.decide.scaling.capacity_at_objective.replicas import (
    Count,
    CountInput,
    largest_need,
    needs,
    next_count,
    record_need,
    utilization,
)
from penstock_operator.decide.scaling.reasons import ReplicasMove, ReplicasReason
from penstock_operator.decide.spec.law_settings import Guards
from tests.unit.operator.decide.scaling.world import SETTINGS

PLAIN = replace(SETTINGS, max_replicas=50, max_percent_per_minute=25)
CALM = PoolDemand(200.0, 200.0, backlog=0.0, imbalance=1.0, dispersion=1.0, unevenness=0.0)
SEEN = CountInput(
    settings=PLAIN,
    replicas=4,
    unmeasured=0,
    waiting=0.0,
    load=CALM,
    imbalance=1.0,
    forecast=200.0,
    capacity_each=100.0,
    capacity_ready=400.0,
    utilization_target=0.8,
    startup_seconds=60.0,
    next_batch=128.0,
    spare_seconds=1.0,
)


def load(rate: float, backlog: float = 0.0, newest: float | None = None) -> PoolDemand:
    return CALM._replace(recent=rate, newest=newest or rate, backlog=backlog)


def guarded(**guards: int) -> CountInput:
    return SEEN._replace(settings=replace(PLAIN, guards=Guards(**guards)))


def settled(seen: CountInput, now: float = 1000.0) -> ReplicasMove:
    """Decide as after a long time of the same."""
    need = largest_need(needs(seen))
    count = record_need(Count(begun=0.0), need.with_margin, 1e9, now)
    return next_count(count, seen, need, now)


def test_the_forecast_is_served_at_the_utilisation_that_meets_the_objective() -> None:
    need = largest_need(needs(SEEN._replace(forecast=500.0, utilization_target=0.5)))
    assert (need.replicas, need.term) == (10, ReplicasReason.FORECAST)


def test_where_no_lateness_is_predicted_all_pods_count_as_busy_as_the_busiest() -> None:
    even = SEEN._replace(load=load(200.0), forecast=200.0, utilization_target=0.85)
    assert largest_need(needs(even)).replicas == 3
    uneven = even._replace(uneven=2.0)
    need = largest_need(needs(uneven))
    assert (need.replicas, need.term) == (5, ReplicasReason.FORECAST)
    assert "the busiest has 2.00 times the mean load" in need.why
    assert utilization(uneven) == 2 * utilization(even) == 1.0
    assert settled(uneven._replace(replicas=6)).replicas == 6, "5.1 with the dead band"


def test_panic_uses_the_last_scrape() -> None:
    seen = SEEN._replace(load=load(300.0, backlog=1000.0, newest=1200.0))
    need = largest_need(needs(seen))
    assert (need.replicas, need.term) == (15, ReplicasReason.PANIC)
    assert largest_need(
        needs(seen._replace(load=load(300.0, backlog=300.0, newest=1200.0)))
    ).term is not (ReplicasReason.PANIC), "172 rows beyond the next batch are 0.43 s of work"


def test_up_at_once_and_never_over_the_maximum() -> None:
    assert settled(SEEN._replace(forecast=2000.0)).replicas == 25
    move = settled(SEEN._replace(forecast=20_000.0, settings=replace(PLAIN, max_replicas=4)))
    assert (move.replicas, move.term) == (4, ReplicasReason.MAX_REPLICAS)


def test_down_only_after_the_whole_hold() -> None:
    seen = SEEN._replace(replicas=8, capacity_ready=800.0)
    need = largest_need(needs(seen))
    count = record_need(Count(begun=0.0), 8, 120.0, 1000.0)
    for now, expected in ((1060.0, 8), (1119.0, 8), (1121.0, 6)):
        count = record_need(count, need.replicas, 120.0, now)
        assert next_count(count, seen, need, now).replicas == expected


def test_the_hold_is_the_specs_or_a_start() -> None:
    seen = SEEN._replace(replicas=8, capacity_ready=800.0, startup_seconds=400.0)
    young = Count(begun=700.0)
    need = largest_need(needs(seen))
    move = next_count(record_need(young, need.replicas, 400.0, 1000.0), seen, need, 1000.0)
    assert (move.term, move.hold_until) == (ReplicasReason.STABILIZING, 1100.0)
    configured = seen._replace(settings=replace(PLAIN, guards=Guards(stabilization_seconds=30)))
    moved = next_count(record_need(young, need.replicas, 30.0, 1000.0), configured, need, 1000.0)
    assert moved.term is ReplicasReason.SPARE_CAPACITY


def test_scale_down_is_at_most_a_quarter_a_minute() -> None:
    seen = SEEN._replace(replicas=20, capacity_ready=2000.0)
    assert settled(seen).replicas == 15
    need = largest_need(needs(seen))
    count = record_need(Count(begun=0.0), need.replicas, 1e9, 1000.0)
    move = next_count(count, seen._replace(downs=((970.0, 6),)), need, 1000.0)
    assert (move.replicas, move.term, move.hold_until) == (20, ReplicasReason.RATE_LIMITED, 1030.0)


def test_a_need_within_the_dead_band_does_not_scale_down() -> None:
    seen = SEEN._replace(forecast=239.0, replicas=4)
    assert largest_need(needs(seen)).replicas == 3
    assert settled(seen).replicas == 4
    assert settled(seen._replace(forecast=220.0)).replicas == 3


def test_a_pod_without_a_window_counts_as_busy() -> None:
    seen = SEEN._replace(replicas=6, capacity_ready=600.0)
    assert settled(seen).replicas == 5
    blind = seen._replace(unmeasured=3)
    assert settled(blind).replicas == 6


def test_the_built_in_targets_guard_nothing() -> None:
    """queueDepth 4 and 50 to 90 % are the defaults of every pool; only values set by the user are guards."""
    assert largest_need(needs(SEEN._replace(waiting=4000.0))).term is ReplicasReason.FORECAST


def test_the_users_queue_depth_is_a_floor() -> None:
    need = largest_need(needs(guarded(target_per_replica=10)._replace(waiting=91.0)))
    assert (need.replicas, need.term) == (10, ReplicasReason.QUEUE_DEPTH)


def test_the_users_high_percent_caps_effective_utilisation() -> None:
    seen = guarded(high_percent=20)._replace(forecast=0.0)
    assert (largest_need(needs(seen)).replicas, largest_need(needs(seen)).term) == (
        10,
        ReplicasReason.HIGH_PERCENT,
    )
    assert largest_need(needs(seen._replace(imbalance=1.5))).replicas == 15, (
        "the busiest pod counts"
    )


@pytest.mark.parametrize(("low", "expected"), [(10, 8), (60, 6)])
def test_the_users_low_percent_permits_and_never_forces(low: int, expected: int) -> None:
    seen = guarded(low_percent=low)._replace(replicas=8, capacity_ready=800.0)
    assert settled(seen).replicas == expected
    needed = seen._replace(forecast=800.0)
    assert settled(needed).replicas >= 8
