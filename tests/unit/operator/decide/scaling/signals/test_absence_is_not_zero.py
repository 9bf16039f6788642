"""Data (docs/design/control-law.md#data): what is absent never lowers a count, and leaves the cap where it is."""

from dataclasses import replace
from math import inf, nan

import pytest

from penstock_operator.observed import PodSample, SignalSource
from tests.unit.operator.decide.scaling.world import SETTINGS, Replica, World

FIXED_CAP = replace(SETTINGS, size_min=8, size_max=8, target_per_replica=16)
"""One replica serves 8 / (0.04 + 0.04) = 100 rows a second."""


def test_losing_all_signals_moves_nothing() -> None:
    """keda#3065: null read as zero took a fleet to its minimum at peak."""
    world = World(rate=60, replicas=4, settings=replace(SETTINGS, max_replicas=4)).run(40)
    cap, replicas = world.last.cap, world.last.replicas
    world.source = SignalSource.NONE
    world.rate = 0
    world.run(1800)
    assert {(decision.cap, decision.replicas) for decision in world.decisions[-300:]} == {
        (cap, replicas)
    }
    assert not world.last.metrics_available
    assert world.last.replicas_term == "SignalsAbsent"


def test_absence_is_left_after_three_good_ticks() -> None:
    world = World(rate=20, settings=FIXED_CAP).run(60)
    world.source = SignalSource.NONE
    world.run(30)
    world.source = SignalSource.PROMETHEUS
    seen = []
    for _ in range(4):
        world.run(5)
        seen.append(world.last.metrics_available)
    assert seen == [False, False, True, True]


def test_signals_that_come_and_go_move_nothing() -> None:
    """keda#4249: a fallback that flutters."""
    world = World(rate=0, replicas=4, settings=FIXED_CAP).run(5)
    for i in range(200):
        world.source = SignalSource.NONE if i % 3 == 0 else SignalSource.PROMETHEUS
        world.run(5)
    assert set(world.counts()) == {4}


def test_repeated_samples_are_no_ticks() -> None:
    """A pool may be visited many times between two scrapes."""
    world = World(rate=20, settings=FIXED_CAP).run(60)
    world.source = SignalSource.NONE
    world.run(10)
    world.source = SignalSource.PROMETHEUS
    world.run(5)
    for _ in range(10):
        world.tick()
    assert not world.last.metrics_available


@pytest.mark.parametrize("value", [nan, inf, -1.0, None])
def test_a_bad_number_is_absent(value: float | None) -> None:
    world = World(rate=20, replicas=4, settings=FIXED_CAP).run(30)
    world.distort = lambda sample: replace(sample, waiting=value, rows_received=value)
    world.run(600)
    assert set(world.counts()) == {4}
    assert not world.last.metrics_available


def test_samples_over_thirty_seconds_old_are_not_used() -> None:
    """llm-d-autoscaling#368: stale series oscillate."""
    world = World(rate=0, replicas=4, settings=FIXED_CAP).run(30)
    frozen = {sample.uid: sample for sample in world.observed().signals.samples}
    world.distort = lambda sample: frozen[sample.uid]
    world.run(30)
    assert world.last.metrics_available
    world.run(600)
    assert set(world.counts()) == {4}
    assert not world.last.metrics_available


def test_a_ready_pod_without_samples_adds_no_demand_and_frees_no_capacity() -> None:
    world = World(rate=150, replicas=3, settings=FIXED_CAP).run(5)
    world.hidden = lambda pod: pod.uid == "pod-1"
    world.run(600)
    assert world.replicas == 3, "100 of 300 rows/s are seen, but the unseen pod counts as busy"
    world.hidden = lambda _: False
    world.run(200)
    assert world.replicas == 2


def test_one_pod_out_of_sight_does_not_stall_an_idle_pool() -> None:
    """aibrix#617: one NotReady pod stalls the pool."""
    world = World(rate=1, replicas=6, settings=FIXED_CAP)
    world.hidden = lambda pod: pod.uid == "pod-1"
    world.run(600)
    assert world.replicas < 6


def test_more_than_half_out_of_sight_is_a_pool_out_of_sight() -> None:
    world = World(rate=1, replicas=5, settings=FIXED_CAP)
    world.hidden = lambda pod: pod.uid in {"pod-1", "pod-2", "pod-3"}
    world.run(600)
    assert set(world.counts()) == {5}
    assert not world.last.metrics_available


def test_the_cap_holds_too_while_the_pool_is_out_of_sight() -> None:
    world = World(rate=2000, replicas=5, cap=8, settings=replace(SETTINGS, min_replicas=5))
    world.hidden = lambda pod: pod.uid in {"pod-1", "pod-2", "pod-3"}
    world.run(300)
    assert world.last.observations.waiting is not None
    assert world.last.observations.waiting > 1000, "two pods are seen to drown"
    assert set(world.caps()) == {8}
    assert world.last.cap_term == "SignalsAbsent"


def test_scaling_up_goes_on_while_less_than_half_is_out_of_sight() -> None:
    world = World(rate=0, replicas=4, settings=FIXED_CAP)
    world.hidden = lambda pod: pod.uid == "pod-1"
    world.run(30)
    world.a = 1000.0
    for pod in world.pods:
        pod.waiting = 50
    world.run(10)
    assert world.replicas == 8


def test_a_pool_without_ready_pods_holds() -> None:
    world = World(rate=0, replicas=3, settings=FIXED_CAP)
    for pod in world.pods:
        pod.ready_at = 1e9
    world.run(600)
    assert set(world.counts()) == {3}


def test_a_restarted_container_is_no_negative_rate() -> None:
    world = World(rate=150, replicas=2, settings=FIXED_CAP).run(60)

    def restart(pod: Replica) -> None:
        pod.received, pod.sums, pod.counts = 0.0, [0.0] * 6, [0] * len(pod.counts)

    restart(world.pods[0])
    world.run(300)
    rates = [
        decision.observations.rows_per_second
        for decision in world.decisions
        if decision.observations.rows_per_second is not None
    ]
    assert min(rates) >= 0
    assert max(rates) <= 151
    assert min(world.counts()) == 2


def test_a_rollout_never_lowers_the_count() -> None:
    """kserve#3768: an update resets replicas to 1. Pods are replaced one by one under steady load."""
    world = World(rate=290, replicas=4, settings=FIXED_CAP).run(60)
    for old in list(world.pods):
        world.pods.remove(old)
        world._start(1, world.now + 30)
        world.run(60)
    assert min(world.counts()) == 4


def test_a_change_of_source_scales_nothing_down() -> None:
    world = World(rate=190, replicas=3, settings=FIXED_CAP).run(60)
    world.source = SignalSource.PODS
    world.run(120)
    assert set(world.counts()) == {3}
    assert world.last.metrics_available


def test_a_sample_without_counters_lets_nothing_fall() -> None:
    world = World(rate=0, replicas=3, settings=FIXED_CAP)
    world.distort = lambda sample: PodSample(uid=sample.uid, time=sample.time, waiting=0.0)
    world.run(600)
    assert set(world.counts()) == {3}
