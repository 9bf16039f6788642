"""Single runs of the control bench, and the units that worker processes execute."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from penstock_simulator.arrivals import requests_for, scaled
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.clairvoyant import Clairvoyant, fluid_gpu_hours
from penstock_simulator.law_registry import law_named
from penstock_simulator.outcome import RunSummary, outcome
from penstock_simulator.pods.routing import Times
from penstock_simulator.scenario import Loss, Routing, Scenario
from penstock_simulator.simulation import simulate
from penstock_simulator.traces import read_trace
from tests.bench.control import ablation, plan, sensitivity

CLAIRVOYANT = "clairvoyant"


@dataclass(frozen=True, slots=True)
class Job:
    """Parameters of one run."""

    trace: str
    seconds: float | None
    law: str
    seed: int = 1
    cold_median: float = 60.0
    routing: Routing = Routing.CONNECTION
    loss: Loss = field(default_factory=Loss)
    service: ServiceModel = plan.SERVICE
    changed: tuple[str, float] | None = None
    """A default of the law, and the factor to multiply it with."""
    ablated: str | None = None
    """A part of the law that is taken out."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a run; the outcome is None if no clairvoyant schedule attains."""

    job: Job
    outcome: RunSummary | None
    fluid_gpu_hours: float


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs that one process executes in order."""

    folder: Path
    jobs: tuple[Job, ...]
    until_missed: bool = False
    """Whether to stop after a miss: a setting that misses one case of a trace cannot be the best."""
    caps: tuple[int, ...] = ()
    """Caps for the clairvoyant search, whose tables all jobs of the unit share."""


@cache
def arrivals_of(path: Path, seconds: float | None, seed: int) -> Times:
    """Return a trace cut and scaled to the bench's mean."""
    times = read_trace(path).times
    times = times if seconds is None else times[times <= seconds]
    wanted = requests_for(float(times[-1]), plan.SERVICE, plan.SETTINGS.size_max)
    return scaled(times, wanted, seed)


def world_of(job: Job) -> Scenario:
    """Return the scenario of a run."""
    known = plan.scenario(job.seed, job.cold_median, job.routing)
    return replace(known, loss=job.loss, service=job.service)


def run_job(folder: Path, job: Job) -> Result:
    """Run one job of a law."""
    arrivals = arrivals_of(folder / plan.TRACES[job.trace], job.seconds, job.seed)
    world = world_of(job)
    law = law_named(job.law, plan.SERVICE)
    with sensitivity.changed(job.changed), ablation.ablated(job.ablated):
        summary = outcome(simulate(world, law, arrivals))
    return Result(job, summary, fluid_gpu_hours(world, len(arrivals)))


def run_unit(unit: Unit) -> list[Result]:
    """Run a unit's jobs."""
    if unit.caps:
        return _bounds(unit)
    results: list[Result] = []
    for job in unit.jobs:
        results.append(run_job(unit.folder, job))
        if unit.until_missed and not attained(results[-1]):
            break
    return results


def _bounds(unit: Unit) -> list[Result]:
    """Search the cheapest schedules of a trace and seed for every cold start."""
    first = unit.jobs[0]
    arrivals = arrivals_of(unit.folder / plan.TRACES[first.trace], first.seconds, first.seed)
    search = Clairvoyant(arrivals, unit.caps)
    results = []
    for job in unit.jobs:
        world = world_of(job)
        best = search.best(world)
        fluid = fluid_gpu_hours(world, len(arrivals))
        results.append(Result(job, None if best is None else best.outcome, fluid))
    return results


def attained(result: Result) -> bool:
    """Return whether the share of requests within the objective reaches `plan.ATTAINED`."""
    return result.outcome is not None and result.outcome.attainment >= plan.ATTAINED


def run_units(units: Sequence[Unit], cores: int) -> Iterator[list[Result]]:
    """Yield the results of units as they finish, from one process per core."""
    if cores <= 1:
        yield from map(run_unit, units)
        return
    with ProcessPoolExecutor(cores) as pool:
        for done in as_completed([pool.submit(run_unit, unit) for unit in units]):
            yield done.result()
