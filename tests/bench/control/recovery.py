"""Recovery of a law from a step of load: time, replicas and cost."""

from dataclasses import dataclass

import numpy as np
from rich.table import Table

from penstock_simulator.arrivals import steps
from penstock_simulator.law_registry import law_named
from penstock_simulator.outcome import completed, outcome
from penstock_simulator.simulation import RunRecord, simulate
from tests.bench.control import plan

BEFORE, AFTER = 4.0, 10.0
"""Load before and after the step, in replicas with full batches."""
STEP_SECONDS, END_SECONDS = 600.0, 1500.0
BIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """Recovery of one law after the step."""

    law: str
    seconds: float
    """Time from the step to the end of the last ten seconds below 99 %; infinite if not within the run."""
    most_replicas: int
    gpu_hours: float


def recovery(law: str, seed: int = 1) -> Recovery:
    """Run one law through the step, starting at the replica count for the load before it."""
    full = plan.SERVICE.capacity(plan.SETTINGS.size_max)
    rates = [(BEFORE * full, STEP_SECONDS), (AFTER * full, END_SECONDS - STEP_SECONDS)]
    world = plan.scenario(seed, cold_median=60.0)
    run = simulate(world, law_named(law, plan.SERVICE), steps(rates, seed))
    summary = outcome(run)
    return Recovery(
        law, recovered_after(run, STEP_SECONDS), summary.most_replicas, summary.gpu_hours
    )


def recovered_after(run: RunRecord, at: float) -> float:
    """Return the seconds from `at` until every interval of ten seconds attains again."""
    arrived, latency = completed(run)
    good = arrived[latency <= run.scenario.objective_seconds]
    edges = np.arange(at, run.arrivals[-1], BIN_SECONDS)
    received, kept = np.histogram(run.arrivals, edges)[0], np.histogram(good, edges)[0]
    missed = np.flatnonzero(kept < plan.ATTAINED * received)
    if not len(missed):
        return 0.0
    last = int(missed[-1])
    return float("inf") if last == len(received) - 1 else (last + 1) * BIN_SECONDS


def table(recoveries: list[Recovery]) -> Table:
    """Return a table with one row per law."""
    shown = Table(
        title=f"a step from {BEFORE:g} to {AFTER:g} replicas' worth", title_justify="left"
    )
    shown.add_column("law", no_wrap=True)
    for name in ("recovered after", "most", "GPU-h"):
        shown.add_column(name, justify="right", no_wrap=True)
    for entry in recoveries:
        after = "not" if entry.seconds == float("inf") else f"{entry.seconds:.0f} s"
        shown.add_row(entry.law, after, str(entry.most_replicas), f"{entry.gpu_hours:.2f}")
    return shown
