"""Closed-loop tests of `CapacityAtObjective` on a simulated pool (docs/design/control-law.md#capacityatobjective)."""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import nan
from typing import Any

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_operator.decide.scaling.reasons import CapReason, ReplicasReason
from penstock_operator.decide.spec.law_settings import AllowedLateShares, Guards
from penstock_operator.observed import PodSample, SignalSource
from tests.unit.operator.decide.scaling.world import SETTINGS, World

ROOMY = replace(SETTINGS, max_replicas=20, max_percent_per_minute=25)
"""One replica serves 32 / (0.1 + 0.32) = 76 rows a second at b*."""


def pool(**changes: Any) -> World:
    given: dict[str, Any] = {
        "settings": ROOMY,
        "a": 0.1,
        "c": 0.01,
        "seed": 3,
        "rate": 50.0,
        "cap": 32,
        "law": CapacityAtObjective(),
    }
    return World(warms_up=True, **(given | changes))


def test_the_cap_comes_from_the_objective_before_any_load() -> None:
    world = pool(rate=1.0).run(30)
    assert 28 <= world.last.cap <= 34
    assert world.last.cap_term == CapReason.OBJECTIVE


def test_steady_demand_keeps_the_count_stable() -> None:
    world = pool(rate=200.0, replicas=4).run(1200)
    assert set(world.counts()[60:]) <= {4, 5}
    assert world.last.observations.utilization is not None
    assert world.last.observations.utilization < 0.85


def test_a_step_is_answered_within_a_start_and_the_cap_stays() -> None:
    world = pool(rate=100.0, replicas=2).run(300)
    planned = world.last.cap
    world.rate = 500.0
    world.run(30)
    assert world.replicas >= 6, "requested before any replica has started"
    world.run(290)
    assert planned <= world.last.cap <= 34
    assert 7 <= world.replicas <= 16


def test_starting_replicas_are_not_requested_twice() -> None:
    world = pool(rate=100.0, replicas=2, cold_start=120.0).run(300)
    world.rate = 300.0
    world.run(110)
    assert world.replicas <= 12, "300 rows/s are 4 replicas' work; the rest drains what waits"


def test_falling_demand_scales_down_after_the_hold_and_gradually() -> None:
    world = pool(rate=600.0, replicas=10).run(300)
    world.rate, now = 100.0, len(world.decisions)
    world.run(110)
    assert min(world.counts()[now:]) >= 10, "the hold is at least 120 s"
    world.run(1500)
    fell = [before - after for before, after in pairwise(world.counts()[now:]) if after < before]
    assert world.replicas <= 4
    assert max(fell) <= 3, "a quarter of the count a minute"


def test_an_even_load_never_flaps() -> None:
    world = pool(rate=300.0, replicas=6).run(3600)
    moves = [after - before for before, after in pairwise(world.counts()[60:]) if after != before]
    turns = sum((before > 0) != (other > 0) for before, other in pairwise(moves))
    assert turns <= 1


def test_without_an_objective_capacity_is_that_of_the_knee_of_the_curve() -> None:
    """Batches up to 53 rows are trusted: 0.9 * 53 / 0.63 = 75.7 rows/s, and 32 rows serve 76.2."""
    blind = replace(ROOMY, objective_milliseconds=None)
    world = pool(rate=200.0, replicas=3, settings=blind).run(300)
    assert 30 <= world.last.cap <= 34
    assert world.last.cap_term == CapReason.KNEE
    assert world.replicas in {3, 4}


def under(late: float) -> World:
    """Return a pool that ran with a share `late` of requests allowed to be late; batch times vary by 5 %."""
    settings = replace(ROOMY, objective_milliseconds=600, late=AllowedLateShares(late))
    return pool(rate=300.0, replicas=6, settings=settings).run(900)


def test_a_stricter_percentage_takes_more_capacity() -> None:
    loose, plain, strict = under(0.1), under(0.01), under(0.001)
    capacity = [sum(world.counts()[60:]) for world in (loose, plain, strict)]
    assert capacity[0] < capacity[1] < capacity[2]


def test_bursts_that_make_requests_late_at_any_count_demand_more_capacity_and_not_less() -> None:
    world = pool(rate=300.0, replicas=6).run(300)
    calm = world.last.observations.utilization_target
    world.state = world.state._replace(dispersion=60.0)
    world.run(5)
    bursty = world.last.observations.utilization_target
    assert calm is not None
    assert bursty is not None
    assert bursty < calm


def test_an_infeasible_objective_adds_no_replicas_for_its_own_sake() -> None:
    world = pool(rate=2.0, settings=replace(ROOMY, objective_milliseconds=100)).run(600)
    assert (world.last.cap, world.last.cap_term) == (1, CapReason.OBJECTIVE_INFEASIBLE)
    assert world.replicas == 1


def test_losing_all_signals_moves_nothing() -> None:
    """keda#3065: null read as zero took a fleet to its minimum at peak."""
    world = pool(rate=300.0, replicas=6).run(200)
    cap, replicas = world.last.cap, world.last.replicas
    world.source = SignalSource.NONE
    world.rate = 0.0
    world.run(1800)
    assert {(decision.cap, decision.replicas) for decision in world.decisions[-300:]} == {
        (cap, replicas)
    }
    assert world.last.replicas_term == ReplicasReason.SIGNALS_ABSENT
    assert not world.last.metrics_available


@dataclass
class Spoiled(CapacityAtObjective):
    """The law with NaN for every figure of every pod while `spoils`."""

    spoils: bool = False

    def step(
        self, state: CapacityState, observed: LawInput, now: float
    ) -> tuple[CapacityState, Decision]:
        samples = observed.signals.samples
        if self.spoils:
            samples = tuple(map(_nan, samples))
        signals = replace(observed.signals, samples=samples)
        return super().step(state, observed._replace(signals=signals), now)


def _nan(sample: PodSample) -> PodSample:
    return replace(
        sample, waiting=nan, running=nan, rows_received=nan, requests_received=nan, curve=None
    )


@pytest.mark.parametrize("rate", [0.0, 2000.0], ids=["no load", "much load"])
def test_figures_that_are_nan_for_two_minutes_move_nothing(rate: float) -> None:
    law = Spoiled()
    world = pool(law=law, rate=250.0, replicas=4).run(300)
    cap, replicas = world.last.cap, world.last.replicas
    law.spoils, world.rate = True, rate
    world.run(120)
    blind = world.decisions[-24:]
    assert {(decision.cap, decision.replicas) for decision in blind} == {(cap, replicas)}
    assert not any(decision.metrics_available for decision in blind)
    law.spoils, world.rate = False, 250.0
    world.run(60)
    assert world.last.metrics_available
    assert min(world.counts()[-12:]) >= replicas


def test_flapping_signals_never_lower_the_count() -> None:
    """keda#4249: a fallback that flutters."""
    world = pool(rate=0.0, replicas=4)
    for i in range(200):
        world.source = SignalSource.NONE if i % 3 == 0 else SignalSource.PROMETHEUS
        world.run(5)
    assert set(world.counts()) == {4}


def test_a_ready_pod_without_samples_frees_no_capacity() -> None:
    world = pool(
        rate=60.0, replicas=4, settings=replace(ROOMY, guards=Guards(stabilization_seconds=60))
    )
    world.hidden = lambda pod: pod.uid == "pod-1"
    world.run(600)
    assert world.replicas >= 2, (
        "45 rows/s are seen: one replica's work, and one that counts as busy"
    )


def test_idle_is_not_unknown() -> None:
    """dynamo#6985: NaN at zero traffic, never down."""
    world = pool(rate=200.0, replicas=4).run(300)
    world.rate = 0.0
    world.run(1200)
    assert world.replicas == 1


def test_a_pool_that_loads_is_not_idle() -> None:
    """kserve#1247: loading pods killed as idle."""
    world = pool(rate=400.0, replicas=1, cold_start=400.0).run(300)
    counts = world.counts()[5:]
    assert counts == sorted(counts)
    assert world.last.replicas > 1


def test_the_start_is_measured_and_the_forecast_reaches_as_far() -> None:
    world = pool(rate=60.0, cold_start=20.0).run(5)
    assert world.last.observations.startup_seconds == pytest.approx(120)
    for rate in (300.0, 60.0) * 4:
        world.rate = rate
        world.run(500)
    assert world.last.observations.startup_seconds is not None
    assert world.last.observations.startup_seconds < 60


def test_every_decision_has_a_message() -> None:
    world = pool(rate=100.0)
    for rate in (100.0, 900.0, 10.0):
        world.rate = rate
        world.run(400)
    assert all(
        decision.message.startswith("cap ") and "; replicas " in decision.message
        for decision in world.decisions
    )
    said = {str(decision.replicas_term) for decision in world.decisions}
    assert said >= {"Forecast", "Stabilizing", "SpareCapacity"}


def test_a_pod_without_acknowledgement_counts_at_its_own_cap() -> None:
    world = pool(rate=100.0, replicas=2).run(120)
    before = world.last.observations.utilization
    world.acknowledges = False
    for pod in world.pods:
        pod.cap = 2
    world.obey = False
    world.run(5)
    assert before is not None
    assert world.last.observations.utilization is not None
    assert world.last.observations.utilization > 3 * before


def test_busy_pods_below_their_curve_are_reported_until_they_recover() -> None:
    """Another process uses the device, which is busy with other work half of the time."""
    world = pool(rate=60.0, replicas=1, obey=False)
    world.run(60)
    assert world.last.observations.off_curve is None
    world.duty_says = 0.99
    world.rate = 2.0
    world.run(60)
    off = world.last.observations.off_curve
    assert off is not None
    assert off < -0.1
    world.duty_says = 0.5
    world.run(30)
    assert world.last.observations.off_curve is not None, (
        "it is kept while the pods are not busy enough to judge"
    )
    world.duty_says, world.rate = 0.99, 75.0
    world.run(120)
    assert world.last.observations.off_curve is None


@pytest.mark.parametrize(("cap", "objective", "least", "most"), [(1, 1000, 4, 6), (64, 20, 1, 2)])
def test_a_cap_that_the_batching_mode_keeps_is_the_one_that_replicas_are_counted_with(
    cap: int, objective: int, least: int, most: int
) -> None:
    """t(1) is 45 ms and t(64) 360 ms: 22 or 178 rows/s of a replica; the plan is b* or, where none is short enough, one row."""
    settings = replace(SETTINGS, objective_milliseconds=objective, max_replicas=12)
    law = CapacityAtObjective()
    world = World(settings, rate=60.0, cap=cap, law=law, warms_up=True, fixed_cap=cap)
    world.run(300)
    assert world.last.cap != cap, "the recommended cap is the law's"
    assert world.last.observations.planned_cap == cap
    assert least <= world.last.replicas <= most


def test_a_kept_cap_above_the_memory_of_the_pods_counts_as_their_memory() -> None:
    world = World(replace(SETTINGS, size_max=64), law=CapacityAtObjective(), fixed_cap=64)
    world.pods[0].cap_bound = 8
    assert world.observed().cap_for_count(34) == 8
