"""Zero replicas in the simulator: what is held is answered once a pod is Ready, and no pod is billed while no request comes."""

from dataclasses import replace

import numpy as np
import pytest

from penstock_operator.decide.scaling.decision import LAWS
from penstock_operator.decide.scaling.law import Law
from penstock_simulator.outcome import completed, outcome
from penstock_simulator.scenario import TICK_SECONDS, ImpossibleScenario, Routing, Scenario
from penstock_simulator.simulation import simulate
from tests.unit.simulator.scenarios import SETTINGS, world

IDLE, START = 120, 60.0
LAW_NAMES = [algorithm.value for algorithm in LAWS]


@pytest.fixture(params=list(LAWS.values()), ids=LAW_NAMES)
def law(request: pytest.FixtureRequest) -> Law[object]:
    chosen: Law[object] = request.param
    return chosen


def sparse() -> Scenario:
    settings = replace(SETTINGS, min_replicas=0)
    return world(start=1, settings=settings, routing=Routing.LEAST_REQUEST, idle_seconds=IDLE)


def test_no_pod_is_billed_between_two_requests_that_are_far_apart(law: Law[object]) -> None:
    run = simulate(sparse(), law, np.array([1.0, 3600.0, 3600.5]))
    kept = 2 * (IDLE + 6 * TICK_SECONDS) + START
    assert run.fleet.gpu_seconds(run.end) < kept
    assert {tick.replicas_term for tick in run.moments} >= {"Idle", "RequestsHeld"}
    arrived, latency = completed(run)
    waits = dict(zip(arrived.tolist(), latency.tolist(), strict=True))
    assert waits[1.0] < 1
    assert START < waits[3600.0] < START + TICK_SECONDS + 1.5
    assert outcome(run).met_start == 2


def test_everything_that_came_at_zero_is_answered_once(law: Law[object]) -> None:
    burst = np.sort(np.random.default_rng(1).uniform(1000.0, 1030.0, 500))
    run = simulate(sparse(), law, burst)
    arrived, latency = completed(run)
    assert sorted(arrived.tolist()) == burst.tolist()
    first = run.fleet.all[1].ready_at
    assert (arrived + latency).min() > first, "no answer comes before a pod is Ready"


def test_a_service_loses_requests_at_zero_so_that_it_has_none() -> None:
    with pytest.raises(ImpossibleScenario, match="use least-request"):
        replace(sparse(), routing=Routing.CONNECTION)
