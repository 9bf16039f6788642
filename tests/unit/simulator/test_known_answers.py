"""The simulator against queueing formulae: where theory knows the answer, the simulator gives it."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from penstock_simulator.arrivals import steps
from penstock_simulator.baselines.fixed import fixed
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.outcome import completed, outcome
from penstock_simulator.scenario import Routing
from penstock_simulator.simulation import simulate
from tests.unit.simulator.scenarios import EXACT, capped, world

DETERMINISTIC = ServiceModel(a=0.0, c=0.01, sigma=0.0, tail_share=0.0, overhead=0.0)


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
def test_one_at_a_time_waits_as_pollaczek_and_khinchine_say(rho: float) -> None:
    arrivals = steps([(rho / 0.01, 4_000.0)], seed=1)
    run = simulate(world(service=DETERMINISTIC, settings=capped(1)), fixed(1), arrivals)
    _, latency = completed(run)
    expected = rho * 0.01 / (2 * (1 - rho))
    assert float(latency.mean()) - 0.01 == pytest.approx(expected, rel=0.08)


def test_noisy_service_waits_longer_by_its_variance() -> None:
    noisy = ServiceModel(a=0.0, c=0.01, sigma=0.5, tail_share=0.0, overhead=0.0)
    arrivals = steps([(60.0, 6_000.0)], seed=2)
    run = simulate(world(service=noisy, settings=capped(1)), fixed(1), arrivals)
    _, latency = completed(run)
    mean, second = 0.01 * np.exp(0.125), 0.0001 * np.exp(0.5)
    wait = 60.0 * second / (2 * (1 - 60.0 * mean))
    assert float(latency.mean()) - mean == pytest.approx(wait, rel=0.1)


def test_several_replicas_behind_one_queue_wait_between_the_bounds_of_theory() -> None:
    """M/D/3: Cosmetatos' approximation, good to about 2 %."""
    rho, servers, service = 0.8, 3, 0.01
    arrivals = steps([(rho * servers / service, 1_500.0)], seed=3)
    scenario = world(3, DETERMINISTIC, capped(1), Routing.CENTRAL_QUEUE)
    _, latency = completed(simulate(scenario, fixed(3), arrivals))
    expected = _erlang_wait(rho, servers, service) / 2 * _cosmetatos(rho, servers)
    assert float(latency.mean()) - service == pytest.approx(expected, rel=0.05)


def _erlang_wait(rho: float, servers: int, service: float) -> float:
    load, term, total = rho * servers, 1.0, 0.0
    for k in range(servers):
        total += term
        term *= load / (k + 1)
    waits = term / (1 - rho)
    return waits / (total + waits) * service / (servers * (1 - rho))


def _cosmetatos(rho: float, servers: int) -> float:
    spread = (1 - rho) * (servers - 1) * (sqrt(4 + 5 * servers) - 2)
    return 1 + spread / (16 * rho * servers)


@pytest.mark.parametrize("rate", [5.0, 20.0, 60.0])
def test_batches_grow_as_the_embedded_chain_of_queue_lengths_says(rate: float) -> None:
    """At batch ends the queue is a Markov chain: its mean batch is known without simulating."""
    arrivals = steps([(rate, 3_000.0)], seed=4)
    run = simulate(world(), fixed(1), arrivals)
    engine = run.fleet.all[0].engine
    sizes = np.array(engine.lasts) - np.array(engine.firsts)
    assert float(sizes.mean()) == pytest.approx(_chain_mean_batch(rate, 32), rel=0.03)


def _chain_mean_batch(rate: float, cap: int) -> float:
    """Return E[batch] over batches: a batch of max(1, min(queue, cap)); arrivals during it are Poisson."""
    states = 20 * cap
    matrix = np.zeros((states, states))
    for queue in range(states):
        batch = max(1, min(queue, cap))
        left = max(queue - batch, 0)
        matrix[queue] = np.roll(_poisson(rate * EXACT.seconds(batch), states), left)
        matrix[queue, :left] = 0.0
    weights = np.full(states, 1.0 / states)
    for _ in range(2_000):
        weights = weights @ matrix
        weights /= weights.sum()
    return float(np.clip(np.arange(states), 1, cap) @ weights)


def _poisson(mean: float, states: int) -> np.ndarray:
    logs = np.cumsum(np.log(np.concatenate(([1.0], mean / np.arange(1, states)))))
    return np.asarray(np.exp(logs - mean))


def test_a_full_replica_serves_its_capacity_and_no_more() -> None:
    arrivals = steps([(2 * EXACT.capacity(32), 200.0)], seed=5)
    run = simulate(world(), fixed(1), arrivals)
    assert len(arrivals) / run.end == pytest.approx(EXACT.capacity(32), rel=0.01)


def test_a_lone_request_takes_one_batch_of_one() -> None:
    run = simulate(world(), fixed(1), np.array([3.0, 50.0]))
    assert outcome(run).p99_seconds == pytest.approx(0.11)


def test_a_curve_is_flat_to_its_knee_and_may_rise_in_stairs() -> None:
    kinked, tiles = replace(EXACT, knee=16), replace(EXACT, stair=8)
    assert [kinked.seconds(rows) for rows in (1, 16, 17, 32)] == pytest.approx(
        [0.1, 0.1, 0.11, 0.26]
    )
    assert [tiles.seconds(rows) for rows in (1, 8, 9, 16)] == pytest.approx(
        [0.18, 0.18, 0.26, 0.26]
    )


@pytest.mark.parametrize("curve", [{"knee": 16}, {"stair": 8}])
def test_a_saturated_pod_serves_full_batches_of_any_curve(curve: dict[str, int]) -> None:
    service = replace(EXACT, **curve)
    arrivals = np.linspace(0.0, 1.0, 3200)
    run = simulate(world(service=service), fixed(1), arrivals)
    assert len(arrivals) / run.end == pytest.approx(service.capacity(32), rel=0.01)


def test_routing_ranks_as_theory_says() -> None:
    """One queue is best, the gateway and two choices come near, connections at random are worst."""
    arrivals = steps([(8 * EXACT.capacity(32) * 0.8, 400.0)], seed=6)
    tails = [
        outcome(simulate(world(8, routing=routing), fixed(8), arrivals)).p99_seconds
        for routing in (
            Routing.CENTRAL_QUEUE,
            Routing.LEAST_REQUEST,
            Routing.POWER_OF_TWO,
            Routing.CONNECTION,
        )
    ]
    assert tails[0] < min(tails[1:3])
    assert max(tails[1:3]) < 1.2 * tails[0]
    assert tails[3] > 2 * tails[0]
