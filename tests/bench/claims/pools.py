"""GPU-hours of a pool by the default law and by the smallest fixed count that attains the objective, in the simulator."""

from collections.abc import Iterator
from dataclasses import replace

from penstock_simulator.arrivals import MEAN_REPLICAS, requests_for, scaled
from penstock_simulator.law_registry import law_named
from penstock_simulator.outcome import RunSummary, outcome
from penstock_simulator.pods.routing import Times
from penstock_simulator.scenario import Routing, Scenario
from penstock_simulator.simulation import simulate
from tests.bench.claims.claims import PoolCost
from tests.bench.control.plan import DEFAULT, SERVICE, SETTINGS
from tests.bench.traces import synthetic

MIN_COUNT, MAX_COUNT = 4, 64
WORLD = Scenario(SERVICE, SETTINGS, routing=Routing.LEAST_REQUEST, seed=1)


def costs(seconds: float) -> Iterator[PoolCost]:
    """Yield the cost on each synthetic trace of the repository, cut to `seconds`; requests are routed as by the gateway."""
    for trace, shape in synthetic.SHAPES.items():
        times = synthetic.arrivals(trace)
        times = times[times <= seconds]
        count = requests_for(float(times[-1] - times[0]), SERVICE, SETTINGS.size_max, MEAN_REPLICAS)
        yield _cost(shape.__name__, scaled(times, count, 1))


def _cost(name: str, arrivals: Times) -> PoolCost:
    law, law_use = _run(DEFAULT, arrivals, WORLD)
    low, high = MIN_COUNT, MAX_COUNT
    while low < high:
        middle = (low + high) // 2
        if _fixed(middle, arrivals)[0].attains:
            high = middle
        else:
            low = middle + 1
    fixed, fixed_use = _fixed(low, arrivals)
    return PoolCost(
        name, law.gpu_hours, law.attainment, law_use, low, fixed.gpu_hours, fixed.attainment,
        fixed_use, law.target,
    )  # fmt: skip


def _fixed(count: int, arrivals: Times) -> tuple[RunSummary, float]:
    """Return a run with `count` replicas from the start."""
    return _run(f"fixed-{count}", arrivals, replace(WORLD, start_replicas=count))


def _run(law: str, arrivals: Times, world: Scenario) -> tuple[RunSummary, float]:
    """Return the summary of a run, and the share of its GPU-seconds in which batches ran."""
    run = simulate(world, law_named(law, world.service), arrivals)
    busy = run.fleet.total(lambda pod: sum(pod.engine.spent))
    return outcome(run), busy / run.fleet.gpu_seconds(run.end)
