"""The baseline like llm-d's workload-variant-autoscaler reads each pod's longest queue of the last minute."""

import numpy as np
import pytest

from penstock_simulator.law_registry import law_named
from penstock_simulator.scenario import Loss
from penstock_simulator.simulation import simulate
from tests.unit.simulator.scenarios import EXACT, world

END = 250.0


def counts(burst: float, loss: Loss | None = None) -> dict[float, int]:
    """Return the requested count by time for a pod that gets 200 requests at `burst`, which it serves within 3 s.

    The pod's samples are read from 5 s on, so the law evaluates them at 5, 65 and 125 s.
    """
    arrivals = np.array([burst] * 200 + [END])
    run = simulate(world(1, loss=loss or Loss()), law_named("wva", EXACT), arrivals)
    return {moment.time: moment.wanted for moment in run.moments}


@pytest.mark.parametrize("burst", [69.5, 89.5, 119.5])
def test_a_queue_that_the_last_minute_had_adds_a_replica(burst: float) -> None:
    wanted = counts(burst)
    assert (wanted[120.0], wanted[125.0]) == (1, 2)


def test_a_queue_of_an_earlier_minute_does_not_count() -> None:
    wanted = counts(59.5)
    assert (wanted[65.0], max(wanted.values()), wanted[END]) == (2, 2, 1)


def test_the_queue_of_a_pod_without_a_new_sample_still_counts() -> None:
    assert counts(89.5, Loss(outages=((110.0, 130.0),)))[125.0] == 2
