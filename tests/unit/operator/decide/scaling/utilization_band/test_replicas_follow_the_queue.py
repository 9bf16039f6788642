"""The replica count of UtilizationBand: up at once with the queue, down one by one when spare."""

from dataclasses import replace
from itertools import pairwise

from penstock_operator.decide.scaling.law import DemandSource
from penstock_operator.decide.scaling.signals.aggregates import MeasuredDemand
from penstock_operator.decide.scaling.utilization_band.replicas import ReplicasInput, is_spare
from penstock_operator.observed import OfferedDemand
from tests.unit.operator.decide.scaling.world import BOUNDS, SETTINGS, World

FIXED_CAP = replace(SETTINGS, size_min=8, size_max=8, target_per_replica=16)
"""One replica serves 8 / (0.04 + 0.04) = 100 rows a second."""


def reversals(counts: list[int]) -> int:
    """Return how often the count turned from rising to falling or back."""
    moves = [b - a for a, b in pairwise(counts) if a != b]
    return sum((a > 0) != (b > 0) for a, b in pairwise(moves))


def test_a_step_of_load_is_met_by_more_replicas_at_once() -> None:
    world = World(rate=20, settings=FIXED_CAP).run(120)
    assert world.replicas == 1
    world.rate = 250
    world.run(5)
    assert world.replicas > 1
    world.run(600)
    assert sum(pod.waiting for pod in world.pods) < 8 * world.replicas
    assert world.replicas >= 3


def test_loading_replicas_are_not_requested_twice() -> None:
    """n = ceil(waiting / target) is an absolute count: the same queue needs the same n."""
    world = World(rate=0, settings=FIXED_CAP, cold_start=300).run(60)
    world.pods[0].waiting = 50
    world.a, world.rate = 1000.0, 0
    world.run(60)
    assert world.last.observations.waiting == 42, "a batch of 8 runs, the others wait"
    world.pods[0].waiting = 42
    world.run(60)
    assert world.counts()[-12:] == [3] * 12
    assert world.created_pods == 3


def test_high_duty_alone_never_adds_a_replica() -> None:
    world = World(rate=10, settings=FIXED_CAP, duty_says=1.0).run(600)
    assert set(world.counts()) == {1}


def test_the_target_grows_with_the_cap_so_that_full_batches_are_no_backlog() -> None:
    settings = replace(FIXED_CAP, size_min=64, size_max=64)
    world = World(rate=0, settings=settings).run(5)
    world.a = 1000.0
    world.pods[0].waiting = 64 + 22
    world.run(10)
    assert world.counts()[-1] == 1, "22 wait, 0.35 * 64 = 22.4 may"


def test_load_that_drops_gives_replicas_back_one_in_each_stabilisation() -> None:
    world = World(rate=350, replicas=6, settings=FIXED_CAP).run(300)
    start = len(world.decisions)
    world.rate = 10
    world.run(900)
    counts = world.counts()[start:]
    assert counts[-1] == 1
    assert all(b - a in {0, -1} for a, b in pairwise(counts))
    falls = [i * 5 for i, (a, b) in enumerate(pairwise(counts)) if b < a]
    assert min(b - a for a, b in pairwise(falls)) >= SETTINGS.stabilization_seconds


def test_steady_load_settles_without_oscillation() -> None:
    for rate in (30, 90, 140, 260, 430, 610):
        world = World(rate=rate, settings=FIXED_CAP).run(1200)
        late = world.counts()[-120:]
        assert reversals(late) == 0, f"at {rate}/s: {late}"
        assert max(late) - min(late) <= 1


def test_both_valves_settle_together() -> None:
    world = World(rate=200, settings=replace(SETTINGS, target_per_replica=16)).run(1800)
    assert reversals(world.caps()[-180:]) == 0
    assert reversals(world.counts()[-180:]) == 0
    assert sum(pod.waiting for pod in world.pods) <= world.replicas * world.last.cap


def test_noise_turns_neither_valve_back_and_forth() -> None:
    for rate in (40, 150):
        settings = replace(SETTINGS, size_max=32, target_per_replica=16, max_replicas=4)
        world = World(rate=rate, settings=settings, seed=rate).run(1800)
        assert reversals(world.caps()[-180:]) == 0
        assert reversals(world.counts()[-180:]) <= 1
        assert sum(pod.waiting for pod in world.pods) <= 16 * world.replicas


def test_the_percentage_a_minute_limits_a_short_stabilisation() -> None:
    settings = replace(FIXED_CAP, stabilization_seconds=0, max_percent_per_minute=25)
    world = World(rate=1, replicas=8, settings=settings).run(30)
    before = world.replicas
    world.run(60)
    assert 8 - before + (before - world.replicas) <= 3
    world.run(600)
    falls = [i * 5 for i, (a, b) in enumerate(pairwise(world.counts())) if b < a]
    for first in falls:
        assert sum(first <= fall < first + 60 for fall in falls) <= 2
    assert world.replicas == 1
    assert any(decision.replicas_term == "RateLimited" for decision in world.decisions)


def test_load_that_one_replica_less_could_not_carry_keeps_them() -> None:
    """Two replicas of 100 rows/s, 95 rows/s: one alone would be 95 % busy, over 90 %."""
    world = World(rate=95, replicas=2, settings=FIXED_CAP).run(900)
    assert set(world.counts()) == {2}
    world.rate = 85
    world.run(200)
    assert world.replicas == 1


def test_zero_traffic_is_a_measurement_and_scales_down() -> None:
    """dynamo#6985: NaN at zero traffic must not mean never down."""
    world = World(rate=0, replicas=3, settings=FIXED_CAP).run(400)
    assert world.replicas == 1


def test_a_pod_waiting_for_a_gpu_does_not_freeze_the_pool() -> None:
    """dynamo#14251: the loop keeps deciding, up and down, while a replica cannot be placed."""
    world = World(rate=150, settings=FIXED_CAP, cold_start=1e9).run(60)
    first = world.replicas
    world.run(60)
    assert world.replicas >= first
    assert len(world.ready) == 1
    world.pods[0].waiting, world.rate = 0, 5
    world.run(2000)
    assert world.replicas == 1


def test_replicas_that_load_count_as_no_capacity() -> None:
    """kserve#1247: loading pods are not idle pods. 95 rows/s need both Ready replicas of four."""
    world = World(rate=95, replicas=2, settings=FIXED_CAP).run(60)
    world.cold_start = 1e9
    world._start(2, world.now + 1e9)
    world.replicas = 4
    world.run(300)
    assert world.replicas == 2, "the two that load are given back, the two that serve are kept"
    world.run(600)
    assert world.replicas == 2


def test_replicas_that_load_are_not_given_back_while_those_that_serve_need_them() -> None:
    """One Ready replica at 95 rows/s is 95 % busy; two more load."""
    world = World(rate=95, replicas=1, settings=FIXED_CAP).run(5)
    world._start(2, world.now + 600)
    world.replicas = 3
    world.run(500)
    assert set(world.counts()[1:]) == {3}


HASTY = replace(FIXED_CAP, stabilization_seconds=5, target_per_replica=5000)
"""The queue neither requires nor prevents replicas. At 200 rows/s, three replicas of 100 are 67 % busy, and two cannot carry them."""


def test_a_killed_pod_takes_no_demand_with_it() -> None:
    """Its callers come to the others at once, and show in their windows only by and by."""
    world = World(rate=200, replicas=3, settings=HASTY).run(60)
    world.pods.pop()
    world._start(1, world.now + 20)
    world.run(120)
    assert set(world.counts()) == {3}


def test_a_restarted_container_takes_no_demand_with_it() -> None:
    """The same pod, its counters from zero."""
    world = World(rate=200, replicas=3, settings=HASTY).run(60)
    before = world.pods.pop()
    world.pods.append(replace(before, ready_at=world.now + 25, received=0.0, waiting=0.0,
                              sums=[0.0] * 6, counts=[0] * len(BOUNDS), running=0))  # fmt: skip
    world.run(120)
    assert set(world.counts()) == {3}


def test_a_backlog_keeps_replicas_that_the_rate_alone_does_not() -> None:
    seen = ReplicasInput(
        settings=FIXED_CAP,
        replicas=2,
        cap=8,
        demand=MeasuredDemand(
            ready=2,
            sampled=2,
            silent=0,
            unmeasured=0,
            waiting=9.0,
            mean_waiting=9.0,
            rows_per_second=10.0,
            age_seconds=0.0,
        ),
        sums=World(rate=10, settings=FIXED_CAP).run(60).service_sums(),
        spare_since=None,
        downs=(),
    )
    assert is_spare(seen)
    assert not is_spare(seen._replace(demand=seen.demand._replace(mean_waiting=16.0)))
    assert not is_spare(seen._replace(demand=seen.demand._replace(mean_waiting=None)))
    assert not is_spare(seen._replace(demand=seen.demand._replace(rows_per_second=None)))
    assert not is_spare(seen._replace(demand=seen.demand._replace(ready=0)))


def test_bounds_edited_live_hold_at_once() -> None:
    world = World(rate=0, replicas=4, settings=FIXED_CAP).run(10)
    world.settings = replace(FIXED_CAP, min_replicas=6)
    world.run(5)
    assert world.replicas == 6
    world.settings = replace(FIXED_CAP, max_replicas=2)
    world.run(5)
    assert world.replicas == 2
    assert world.last.replicas_term == "MaxReplicas"


def test_after_a_restart_nothing_falls_before_a_full_stabilisation() -> None:
    world = World(rate=5, replicas=5, settings=FIXED_CAP).run(30)
    world.state = None
    before = len(world.decisions)
    world.run(60)
    assert set(world.counts()[before:]) == {5}
    world.run(30)
    assert world.replicas == 4


def two_replicas(offered: float | None) -> World:
    """Two replicas that one could replace, behind a gateway that counts so many requests a second."""
    demand = None if offered is None else OfferedDemand(offered, offered, offered)
    return World(rate=40, replicas=2, settings=FIXED_CAP, offered=demand, seed=1).run(180)


def test_requests_that_the_gateway_refuses_are_demand() -> None:
    """Pods count 40 of the 190 rows a second, of which one replica would serve 100."""
    assert two_replicas(None).replicas == 1
    refused = two_replicas(190.0)
    assert refused.replicas == 2
    assert refused.last.observations.rows_per_second == 190
    assert refused.last.observations.demand_source is DemandSource.GATEWAY


def test_clients_that_reach_pods_directly_are_demand_too() -> None:
    direct, alone = two_replicas(10.0).last.observations, two_replicas(None).last.observations
    assert direct.rows_per_second == alone.rows_per_second
    assert direct.demand_source is DemandSource.PODS
