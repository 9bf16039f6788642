"""Connections of a plain Service close after some requests, so that few clients do not overload single pods."""

from dataclasses import replace

import numpy as np

from penstock_simulator.law_registry import law_named
from penstock_simulator.outcome import RunSummary, outcome
from penstock_simulator.pods.fleet import SimulatedFleet
from penstock_simulator.pods.routing import PerConnection
from penstock_simulator.scenario import ClientBehavior
from penstock_simulator.simulation import simulate
from tests.bench.control import plan


def run(requests: int) -> RunSummary:
    """Return the outcome of 8 busy connections to 10 pods at half their capacity."""
    known = plan.scenario(1, 60.0)
    clients = ClientBehavior(connections=8, connection_requests=requests)
    settings = replace(known.settings, min_replicas=10, max_replicas=10)
    arrivals = np.sort(np.random.default_rng(1).uniform(0, 300, size=300 * 380))
    world = replace(known, clients=clients, settings=settings)
    return outcome(simulate(world, law_named("fixed-10", plan.SERVICE), arrivals))


def test_connections_that_close_after_few_requests_spread_the_load() -> None:
    pinned, moving = run(10**9), run(10)
    assert moving.attainment > pinned.attainment + 0.2


def test_each_request_reaches_its_pod_in_a_run_of_more_than_32768_pods() -> None:
    known = replace(plan.scenario(1, 60.0), start_replicas=2)
    fleet = SimulatedFleet(known)
    first, last = fleet.all
    fleet.all = [first] * (2**15 + 10) + [last]
    router = PerConnection(known, fleet)
    router._push(np.array([1.0, 2.0, 3.0]), np.array([5, len(fleet.all) - 1, -1]))
    assert (first.arrivals, last.arrivals, router.failed) == ([1.0], [2.0], [3.0])
