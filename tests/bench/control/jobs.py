"""Single runs of the bench, each a value that any process can carry out."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from penstock_simulator.arrivals import requests_for, scaled
from penstock_simulator.bounds import fluid_gpu_hours
from penstock_simulator.clairvoyant import clairvoyant
from penstock_simulator.laws import law_named
from penstock_simulator.outcome import Outcome, outcome
from penstock_simulator.routing import Times
from penstock_simulator.scenario import Loss, Routing
from penstock_simulator.traces import read_trace
from penstock_simulator.world import simulate
from tests.bench.control import plan

CLAIRVOYANT = "clairvoyant"


@dataclass(frozen=True, slots=True)
class Job:
    """One run."""

    folder: Path
    trace: str
    seconds: float | None
    law: str
    seed: int = 1
    cold_median: float = 60.0
    routing: Routing = Routing.CONNECTION
    loss: Loss = field(default_factory=Loss)
    caps: tuple[int, ...] = (32,)
    """Tried by the clairvoyant."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it; no outcome: the clairvoyant found no schedule that attains."""

    job: Job
    outcome: Outcome | None
    fluid_gpu_hours: float


@cache
def arrivals_of(path: Path, seconds: float | None, seed: int) -> Times:
    """Return a trace cut and scaled to the bench's mean."""
    times = read_trace(path).times
    times = times if seconds is None else times[times <= seconds]
    wanted = requests_for(float(times[-1]), plan.SERVICE, plan.SETTINGS.size_max)
    return scaled(times, wanted, seed)


def carry_out(job: Job) -> Result:
    """Run one job."""
    arrivals = arrivals_of(job.folder / plan.TRACES[job.trace], job.seconds, job.seed)
    world = replace(plan.scenario(job.seed, job.cold_median, job.routing), loss=job.loss)
    fluid = fluid_gpu_hours(world, len(arrivals))
    if job.law == CLAIRVOYANT:
        found = clairvoyant(world, arrivals, job.caps)
        return Result(job, None if found is None else found.outcome, fluid)
    return Result(job, outcome(simulate(world, law_named(job.law, plan.SERVICE), arrivals)), fluid)


def carry_out_all(jobs: Sequence[Job], cores: int) -> Iterator[Result]:
    """Yield results in order; more than one core means as many processes."""
    if cores <= 1:
        yield from map(carry_out, jobs)
        return
    with ProcessPoolExecutor(cores) as pool:
        yield from pool.map(carry_out, jobs)
