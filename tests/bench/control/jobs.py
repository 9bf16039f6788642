"""Single runs of the bench, and the units in which processes carry them out."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from penstock_simulator.arrivals import requests_for, scaled
from penstock_simulator.clairvoyant import Clairvoyant, fluid_gpu_hours
from penstock_simulator.laws import law_named
from penstock_simulator.outcome import RunSummary, outcome
from penstock_simulator.routing import Times
from penstock_simulator.scenario import Loss, Routing, Scenario
from penstock_simulator.traces import read_trace
from penstock_simulator.world import simulate
from tests.bench.control import plan, sensitivity

CLAIRVOYANT = "clairvoyant"


@dataclass(frozen=True, slots=True)
class Job:
    """One run."""

    trace: str
    seconds: float | None
    law: str
    seed: int = 1
    cold_median: float = 60.0
    routing: Routing = Routing.CONNECTION
    loss: Loss = field(default_factory=Loss)
    changed: tuple[str, float] | None = None
    """A default of the law, and the factor it is taken times."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it; no outcome: the clairvoyant found no schedule that attains."""

    job: Job
    outcome: RunSummary | None
    fluid_gpu_hours: float


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs for one process, in order."""

    folder: Path
    jobs: tuple[Job, ...]
    until_missed: bool = False
    """A setting that misses one case of a trace is nobody's best: its other cases need not be run."""
    caps: tuple[int, ...] = ()
    """Tried by the clairvoyant, whose tables serve all jobs of the unit."""


@cache
def arrivals_of(path: Path, seconds: float | None, seed: int) -> Times:
    """Return a trace cut and scaled to the bench's mean."""
    times = read_trace(path).times
    times = times if seconds is None else times[times <= seconds]
    wanted = requests_for(float(times[-1]), plan.SERVICE, plan.SETTINGS.size_max)
    return scaled(times, wanted, seed)


def world_of(job: Job) -> Scenario:
    """Return the world of a run."""
    return replace(plan.scenario(job.seed, job.cold_median, job.routing), loss=job.loss)


def carry_out(folder: Path, job: Job) -> Result:
    """Run one job of a law."""
    arrivals = arrivals_of(folder / plan.TRACES[job.trace], job.seconds, job.seed)
    world = world_of(job)
    law = law_named(job.law, plan.SERVICE)
    with sensitivity.changed(job.changed):
        found = outcome(simulate(world, law, arrivals))
    return Result(job, found, fluid_gpu_hours(world, len(arrivals)))


def carry_out_unit(unit: Unit) -> list[Result]:
    """Run a unit's jobs."""
    if unit.caps:
        return _bounds(unit)
    found: list[Result] = []
    for job in unit.jobs:
        found.append(carry_out(unit.folder, job))
        if unit.until_missed and not attained(found[-1]):
            break
    return found


def _bounds(unit: Unit) -> list[Result]:
    """Search the cheapest schedules of one trace and seed, for every cold start."""
    one = unit.jobs[0]
    arrivals = arrivals_of(unit.folder / plan.TRACES[one.trace], one.seconds, one.seed)
    search = Clairvoyant(arrivals, unit.caps)
    found = []
    for job in unit.jobs:
        world = world_of(job)
        best = search.best(world)
        fluid = fluid_gpu_hours(world, len(arrivals))
        found.append(Result(job, None if best is None else best.outcome, fluid))
    return found


def attained(result: Result) -> bool:
    """Return whether enough requests were on time."""
    return result.outcome is not None and result.outcome.attainment >= plan.ATTAINED


def carry_out_all(units: Sequence[Unit], cores: int) -> Iterator[list[Result]]:
    """Yield the results of units as they are done; more than one core means as many processes."""
    if cores <= 1:
        yield from map(carry_out_unit, units)
        return
    with ProcessPoolExecutor(cores) as pool:
        for done in as_completed([pool.submit(carry_out_unit, unit) for unit in units]):
            yield done.result()
