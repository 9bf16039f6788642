"""`python -m penstock_simulator simulate --trace FILE --law NAME ...` prints a table and writes a plot and JSON."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from penstock_simulator.arrivals import requests_for, scaled, scaled_lengths
from penstock_simulator.clairvoyant import fluid_gpu_hours
from penstock_simulator.law_registry import UnknownLaw, law_named
from penstock_simulator.options import parser, scenario, service, steps
from penstock_simulator.outcome import RunSummary, outcome
from penstock_simulator.plot import plot
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.step_time import Generation, by_arrival, distinct
from penstock_simulator.scenario import ImpossibleScenario, Scenario
from penstock_simulator.simulation import RunRecord, simulate
from penstock_simulator.table import table
from penstock_simulator.traces import Trace, UnreadableTrace, read_trace

TABLE_WIDTH = 110
"""Minimum width of the output, so that the table is not truncated."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    args = parser().parse_args(argv)
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    try:
        trace = read_trace(args.trace)
        outcomes, runs, fluid = _runs(args, trace, console)
    except (UnreadableTrace, UnknownLaw, ImpossibleScenario, OSError) as problem:
        console.print(str(problem), style="red", markup=False, highlight=False)
        return 2
    title = f"{trace.name}: {args.routing} routing, cold start {args.cold_median:g} s, seeds {args.seed}"
    console.print(table(title, outcomes, fluid))
    plot(runs, args.plot)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {"trace": trace.name, "arguments": vars(args), "fluid_gpu_hours": fluid}
    figures["runs"] = [result.as_json() for result in outcomes]
    args.json.write_text(json.dumps(figures, indent=1, default=str) + "\n", encoding="utf-8")
    console.print(f"plot {args.plot}, figures {args.json}", markup=False)
    return 0


def _runs(
    args: argparse.Namespace, trace: Trace, console: Console
) -> tuple[list[RunSummary], list[RunRecord], float]:
    """Return a run of every law and seed, the first seed's runs for the plot, and the fluid bound."""
    outcomes, shown, fluids = [], [], []
    laws = [law_named(name, service(args)) for name in args.law]
    for seed in args.seed:
        world, arrivals = world_of(args, trace, seed)
        fluids.append(fluid_gpu_hours(world, len(arrivals)))
        for law in laws:
            with console.status(f"{law.name}, seed {seed}: {len(arrivals)} requests"):
                run = simulate(world, law, arrivals)
            outcomes.append(outcome(run))
            if seed == args.seed[0]:
                shown.append(run)
    return outcomes, shown, sum(fluids) / len(fluids)


def world_of(args: argparse.Namespace, trace: Trace, seed: int) -> tuple[Scenario, Times]:
    """Return scenario and arrivals of one seed: the trace, truncated and scaled by the arguments.

    Raises:
        UnreadableTrace: the pods generate text, and the trace has no tokens; it has hourly counts and is not scaled; or
            no request is left.
    """
    world, model = scenario(args, seed), steps(args)
    times = trace.times if args.mean_replicas > 0 else trace.unscaled()
    times = times if args.seconds is None else times[times <= args.seconds]
    length = float(times[-1] - times[0])
    world = world.of_length(length)
    if model is None:
        wanted = requests_for(length, service(args), args.cap_max, args.mean_replicas)
        return world, _some(trace, times if wanted <= 0 else scaled(times, wanted, seed))
    if trace.lengths is None:
        raise UnreadableTrace(f"trace {trace.name}: expected tokens of prompts and answers")
    tokens = trace.lengths[: len(times)]
    wanted = args.mean_replicas * length / float(model.work(tokens, args.cap_max).mean())
    arrivals = distinct(times)
    if wanted > 0:
        arrivals, tokens = scaled_lengths(times, tokens, wanted, seed)
    arrivals = _some(trace, arrivals)
    return replace(world, generation=Generation(model, by_arrival(arrivals, tokens))), arrivals


def _some(trace: Trace, arrivals: Times) -> Times:
    if not len(arrivals):
        raise UnreadableTrace(
            f"trace {trace.name}: no request is left at this scale: use more --mean-replicas or --seconds"
        )
    return arrivals


if __name__ == "__main__":
    sys.exit(main())
