"""Connections of a plain Service close after some requests, so that few clients do not overload single pods."""

from dataclasses import replace

import numpy as np

from penstock_simulator.law_registry import law_named
from penstock_simulator.outcome import RunSummary, outcome
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
