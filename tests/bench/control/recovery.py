"""How long a law takes to recover from a step of load, and what it takes for it."""

from dataclasses import dataclass

import numpy as np
from rich.table import Table

from penstock_simulator.arrivals import steps
from penstock_simulator.laws import law_named
from penstock_simulator.outcome import completed, outcome
from penstock_simulator.world import RunRecord, simulate
from tests.bench.control import plan

BEFORE, AFTER = 4.0, 10.0
"""Replicas of full batches that the load is worth."""
STEP_SECONDS, END_SECONDS = 600.0, 1500.0
BIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """One law after the step."""

    law: str
    seconds: float
    """From the step to the end of the last ten seconds under 99 %; infinite: not within the run."""
    most_replicas: int
    gpu_hours: float


def recovery(law: str, seed: int = 1) -> Recovery:
    """Run one law through the step; starts as in the bench, at the count that fits the load before."""
    full = plan.SERVICE.capacity(plan.SETTINGS.size_max)
    rates = [(BEFORE * full, STEP_SECONDS), (AFTER * full, END_SECONDS - STEP_SECONDS)]
    world = plan.scenario(seed, cold_median=60.0)
    run = simulate(world, law_named(law, plan.SERVICE), steps(rates, seed))
    found = outcome(run)
    return Recovery(law, recovered_after(run, STEP_SECONDS), found.most_replicas, found.gpu_hours)


def recovered_after(run: RunRecord, at: float) -> float:
    """Return the seconds from `at` until every ten seconds attain again."""
    arrived, latency = completed(run)
    good = arrived[latency <= run.scenario.objective_seconds]
    edges = np.arange(at, run.arrivals[-1], BIN_SECONDS)
    asked, kept = np.histogram(run.arrivals, edges)[0], np.histogram(good, edges)[0]
    missed = np.flatnonzero(kept < plan.ATTAINED * asked)
    if not len(missed):
        return 0.0
    last = int(missed[-1])
    return float("inf") if last == len(asked) - 1 else (last + 1) * BIN_SECONDS


def table(found: list[Recovery]) -> Table:
    """Return one row a law."""
    shown = Table(
        title=f"a step from {BEFORE:g} to {AFTER:g} replicas' worth", title_justify="left"
    )
    shown.add_column("law", no_wrap=True)
    for name in ("recovered after", "most", "GPU-h"):
        shown.add_column(name, justify="right", no_wrap=True)
    for one in found:
        after = "not" if one.seconds == float("inf") else f"{one.seconds:.0f} s"
        shown.add_row(one.law, after, str(one.most_replicas), f"{one.gpu_hours:.2f}")
    return shown
