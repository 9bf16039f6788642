"""Pods of the simulated pool: paid from decision to release, started late, drained without loss."""

import numpy as np
import pytest

from penstock_simulator.arrivals import steps
from penstock_simulator.baselines.fixed import Planned, fixed
from penstock_simulator.outcome import outcome
from penstock_simulator.pods.fleet import SimulatedFleet, cold_start
from penstock_simulator.scenario import ColdStarts, Routing
from penstock_simulator.simulation import simulate
from tests.unit.simulator.scenarios import EXACT, world

ROUTINGS = pytest.mark.parametrize("routing", list(Routing))


def test_a_replica_costs_from_its_decision_though_it_serves_later() -> None:
    fleet = SimulatedFleet(world(1))
    fleet.scale(2, now=100.0)
    assert len(fleet.ready(159.0)) == 1
    assert len(fleet.ready(160.0)) == 2
    assert fleet.gpu_seconds(200.0) == pytest.approx(200.0 + 100.0)


def test_loading_pods_go_before_ready_ones() -> None:
    fleet = SimulatedFleet(world(2))
    fleet.scale(4, now=0.0)
    fleet.scale(2, now=10.0)
    fleet.release(10.0)
    assert len(fleet.ready(10.0)) == 2
    assert fleet.gpu_seconds(20.0) == pytest.approx(2 * 20.0 + 2 * 10.0)


def test_with_foresight_a_replica_is_ready_when_asked_for_and_paid_before() -> None:
    fleet = SimulatedFleet(world(1, foresight=True))
    fleet.scale(2, now=100.0)
    assert len(fleet.ready(100.0)) == 2
    assert fleet.gpu_seconds(100.0) == pytest.approx(100.0 + 60.0)


@ROUTINGS
def test_a_drain_loses_no_request(routing: Routing) -> None:
    arrivals = steps([(150.0, 120.0)], seed=1)
    law = Planned("down", (4, 4, 3), 20.0)
    run = simulate(world(4, routing=routing), law, arrivals)
    assert outcome(run).never_completed == 0
    assert len(run.fleet.live) == 3


@ROUTINGS
def test_every_request_is_served_once(routing: Routing) -> None:
    arrivals = steps([(100.0, 60.0), (300.0, 30.0)], seed=2)
    run = simulate(world(3, routing=routing), Planned("up", (3, 5, 2), 30.0), arrivals)
    taken = sum(last - first for _, engine in run.router.served() for first, last in zip(engine.firsts, engine.lasts, strict=True))  # fmt: skip
    assert taken == len(arrivals)


def test_a_draining_pod_costs_until_its_queue_is_done() -> None:
    arrivals = np.array([9.99] * 64)
    run = simulate(world(2), Planned("down", (2, 2, 1), 5.0), np.append(arrivals, 30.0))
    gone = next(pod for pod in run.fleet.all if pod.released_at < 1e9)
    assert gone.released_at >= max(15.0, gone.engine.free_at)


def test_cold_starts_have_the_median_asked_for_and_failures_on_top() -> None:
    random = np.random.default_rng(1)
    cold = ColdStarts(median_seconds=60.0, sigma=0.5, failing_share=0.1, failing_seconds=300.0)
    drawn = np.array([cold_start(cold, random) for _ in range(4_000)])
    assert float(np.median(drawn)) == pytest.approx(65.0, rel=0.1)
    assert float((drawn > 300).mean()) == pytest.approx(0.1, abs=0.02)


def test_a_full_queue_rejects_and_a_rejection_is_a_miss() -> None:
    arrivals = np.linspace(0.0, 1.0, 500)
    run = simulate(world(1, max_queue_depth=100), fixed(1), arrivals)
    summary = outcome(run)
    assert summary.never_completed > 200
    assert summary.attainment < 0.6
    assert len(run.fleet.all[0].rejected) == summary.never_completed


def test_same_seed_same_story() -> None:
    arrivals = steps([(200.0, 60.0)], seed=3)
    first, other = (outcome(simulate(world(4, seed=5), fixed(4), arrivals)) for _ in range(2))
    assert first == other


def test_capacity_is_rows_over_time() -> None:
    assert EXACT.capacity(32) == pytest.approx(32 / 0.42)
