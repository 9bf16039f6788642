"""The simulator forms the same batches as the runtime."""

from random import Random

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.dynamic.batch_former import (
    ArrivalForecast,
    Batch,
    BatchLimits,
    WaitUntil,
    form_batch,
)
from penstock_runtime.engine.queue.queue import WaitingRequests
from penstock_runtime.engine.service_time import ServiceTime
from penstock_simulator.pods.engine import SimulatedEngine
from penstock_simulator.pods.pod import PodLimits, SimulatedPod
from tests.unit.runtime.engine.dynamic.builders import a_request
from tests.unit.simulator.scenarios import EXACT

WINDOW = 0.05


@pytest.mark.parametrize("rate", [2.0, 15.0, 40.0, 90.0])
@pytest.mark.parametrize("cap", [4, 16])
def test_both_form_the_same_batches_at_the_same_times(rate: float, cap: int) -> None:
    arrivals = _arrivals(rate)
    assert _simulated(arrivals, cap) == pytest.approx(_by_the_runtime(arrivals, cap))


def _arrivals(rate: float) -> list[float]:
    random, now, times = Random(7), 0.0, list[float]()  # noqa: S311 - traffic, no secret
    for _ in range(400):
        now += random.expovariate(rate)
        times.append(now)
    return times


def _simulated(arrivals: list[float], cap: int) -> list[float]:
    engine = SimulatedEngine(EXACT, None, cap)
    pod = SimulatedPod(0, 0.0, 0.0, engine, PodLimits(WINDOW, 10**6, 1e9))
    pod.cap = cap
    pod.push(arrivals)
    pod.advance(1e9)
    return [
        value for end, last in zip(engine.ends, engine.lasts, strict=True) for value in (end, last)
    ]


def _by_the_runtime(arrivals: list[float], cap: int) -> list[float]:
    """Form batches with the runtime: whenever the engine is free, at arrivals, and at the time that it returned."""
    waiting = WaitingRequests(Discipline.FIRST_IN_FIRST_OUT)
    batches, now, come, served = list[float](), 0.0, 0, 0
    while served < len(arrivals):
        while come < len(arrivals) and arrivals[come] <= now:
            waiting.add(a_request(f"r{come}", arrived=arrivals[come]))
            come += 1
        recent = sum(now - 1.0 <= at <= now for at in arrivals[max(0, come - 200) : come])
        rate = max(0.0, float(recent - waiting.rows))  # as the engine's forecast
        outlook = ArrivalForecast(ServiceTime(EXACT.a, EXACT.c), rate)
        placed = form_batch(waiting, BatchLimits(cap, WINDOW), outlook, now)
        following = arrivals[come] if come < len(arrivals) else 1e9
        if isinstance(placed, Batch):
            now += EXACT.seconds(placed.rows)
            served += placed.rows
            batches += [now, served]
        else:
            now = min(placed.time, following) if isinstance(placed, WaitUntil) else following
    return batches
