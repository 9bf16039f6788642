"""Batch work of half the interactive demand on a trace: GPU-hours with and without filling the valleys, and deadlines met.

Three runs of the default law: the trace alone, the same with batches in the places that it leaves, and with the same lines
sent as ordinary requests at an even rate. Batches are submitted at even times and expire after half the trace.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from penstock_api.types.batch_work import BatchWorkSpec
from penstock_simulator.arrivals import MEAN_REPLICAS, requests_for, scaled
from penstock_simulator.law_registry import law_named
from penstock_simulator.outcome import RunSummary, outcome
from penstock_simulator.pods.routing import Times
from penstock_simulator.scenario import LineBatch, Scenario
from penstock_simulator.simulation import simulate
from penstock_simulator.traces import read_trace
from tests.bench.control.plan import DEFAULT, SERVICE, SETTINGS, TRACES

BATCHES = 6


def batches_of(lines: int, length: float) -> tuple[LineBatch, ...]:
    """Return equal batches over the first half of a trace, each due after half its length."""
    begins = np.linspace(0.0, length / 2, BATCHES)
    return tuple(LineBatch(lines // BATCHES, float(at), float(at) + length / 2) for at in begins)


def evenly(arrivals: Times, lines: int) -> Times:
    """Return the arrivals with lines between them at an even rate."""
    return np.sort(np.concatenate((arrivals, np.linspace(0.0, float(arrivals[-1]), lines))))


def main() -> int:
    """Run and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--trace", choices=list(TRACES), default="azure_conv")
    parser.add_argument("--mean-replicas", type=float, default=MEAN_REPLICAS)
    parser.add_argument("--share", type=float, default=0.5, help="lines of a request")
    parser.add_argument("--batch-replicas", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("build/bench/valleys.json"))
    args = parser.parse_args()
    times = read_trace(args.traces / TRACES[args.trace]).times
    if args.seconds is not None:
        times = times[times <= args.seconds]
    wanted = requests_for(
        float(times[-1] - times[0]), SERVICE, SETTINGS.size_max, args.mean_replicas
    )
    arrivals = scaled(times, wanted, args.seed)
    lines, length = int(args.share * len(arrivals)), float(arrivals[-1])
    plain = Scenario(SERVICE, SETTINGS, seed=args.seed).of_length(length)
    filled = replace(
        plain,
        batches=batches_of(lines, length),
        batch_work=BatchWorkSpec(max_replicas=args.batch_replicas),
    )
    print(f"{args.trace}: {len(arrivals)} requests and {lines} lines in {length:.0f} s", flush=True)
    runs = {
        "alone": _run(plain, arrivals),
        "in the valleys": _run(filled, arrivals),
        "as requests": _run(plain, evenly(arrivals, lines)),
    }
    for name, run in runs.items():
        print(_line(name, run), flush=True)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {name: run.as_json() for name, run in runs.items()}
    args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def _run(scenario: Scenario, arrivals: Times) -> RunSummary:
    return outcome(simulate(scenario, law_named(DEFAULT, scenario.service), arrivals))


def _line(name: str, run: RunSummary) -> str:
    text = (
        f"{name:15} {run.gpu_hours:7.2f} GPU-h  {100 * run.attainment:6.2f} % on time"
        f"  p50 {1000 * run.p50_seconds:4.0f} ms  p99 {1000 * run.p99_seconds:5.0f} ms"
    )
    work = run.batch_work
    if work is None:
        return text
    return f"{text}  {work.in_time} of {work.batches} batches in time, {work.answered} of {work.lines} lines, {100 * work.share:.1f} % of the rows"


if __name__ == "__main__":
    sys.exit(main())
