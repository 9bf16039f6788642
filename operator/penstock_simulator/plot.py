"""Plot of runs over time. Does I/O: writes a file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from penstock_simulator.outcome import answers, completed
from penstock_simulator.simulation import RunRecord

LATENCY_BIN_SECONDS = 20.0


def plot(runs: Sequence[RunRecord], path: Path) -> None:
    """Write demand, replicas, cap and p99 latency of `runs` over one time axis as PNG, SVG or PDF."""
    figure = Figure(figsize=(11, 10), layout="constrained")
    axes = figure.subplots(4, 1, sharex=True)
    demand, replicas, caps, latency = axes
    first = runs[0]
    times = [tick.time / 60 for tick in first.moments]
    demand.plot(times, [tick.demand for tick in first.moments], color="0.3", linewidth=0.8)
    demand.set_ylabel("requests/s")
    for run in runs:
        times = [tick.time / 60 for tick in run.moments]
        line = replicas.step(
            times, [tick.devices for tick in run.moments], where="post", label=run.law
        )
        color = line[0].get_color()
        ready = [tick.ready for tick in run.moments]
        replicas.step(times, ready, where="post", color=color, linestyle=":", linewidth=0.9)
        caps.step(times, [tick.cap for tick in run.moments], where="post", color=color)
        latency.plot(*_p99(run), color=color, linewidth=0.9)
    replicas.set_ylabel("GPUs allocated, Ready dotted")
    replicas.legend(loc="upper right")
    caps.set_ylabel("batch cap")
    latency.axhline(first.scenario.patience_seconds, color="0.5", linestyle="--", linewidth=0.8)
    latency.set_yscale("log")
    text = first.scenario.generation is not None
    latency.set_ylabel("p99 of first token, s" if text else "p99 latency, s")
    latency.set_xlabel("minutes")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _p99(run: RunRecord) -> tuple[list[float], list[float]]:
    """Return minutes and the 99th percentile of requests that arrived in each bin."""
    arrived, latency = completed(run)
    if run.scenario.generation is not None:
        arrived, _, latency, _ = answers(run)
    bins = (arrived // LATENCY_BIN_SECONDS).astype(int)
    order = np.argsort(bins, kind="stable")
    bins, latency = bins[order], latency[order]
    cuts = np.flatnonzero(np.diff(bins)) + 1
    starts = [int(part[0]) for part in np.split(bins, cuts) if len(part)]
    tails = [float(np.quantile(part, 0.99)) for part in np.split(latency, cuts) if len(part)]
    return [start * LATENCY_BIN_SECONDS / 60 for start in starts], tails
