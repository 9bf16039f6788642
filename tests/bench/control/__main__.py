"""`make bench-control`: runs every law on every trace and compares bounds and targets (docs/design/control-law.md#evaluation)."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tests.bench.control import (
    ablation_table,
    commits,
    figures,
    plan,
    recovery,
    show,
    store,
    units,
)
from tests.bench.control.jobs import Result, Unit, attained, run_units
from tests.bench.traces import synthetic

OUT = Path("build/bench/control.json")
WIDTH = 110
SYNTHETIC = Path("build/traces/synthetic")
SYNTHETIC_LINES = Path("build/bench/control.synthetic.runs.jsonl")
STAND_INS = "synthetic traces stand in, whose figures are not those of the docs; `make traces` fetches the public ones"


def main() -> int:
    """Run the bench, on synthetic traces where the public ones are missing."""
    args = _arguments()
    size = plan.QUICK if args.quick else plan.WHOLE
    console = Console()
    console.width = max(console.width, WIDTH)
    missing = [name for name in plan.TRACES.values() if not (args.traces / name).is_file()]
    if missing:
        console.print(f"no {', '.join(missing)} in {args.traces}: {STAND_INS}")
        args.traces, store.LINES = synthetic.write(SYNTHETIC), SYNTHETIC_LINES
    console.print(
        f"commit {commits.head()}; {'quick' if args.quick else 'whole'} form: {size.budget}"
    )
    console.print(commits.frozen().sentence())
    if args.ablations:
        runs = _results(units.ablations(args.traces, size), args, console)
        console.print(ablation_table.table(ablation_table.ablations(runs)))
        return 0
    worlds = units.worlds(args.traces, size)
    changes = units.changes(args.traces, size) if size.changes else {}
    planned = units.laws(args.traces, size)
    planned += [] if args.no_grid else units.settings(args.traces, size)
    planned += [] if args.no_clairvoyant else units.bounds(args.traces, size)
    planned += [unit for group in worlds.values() for unit in group]
    planned += [] if args.no_sensitivity else [unit for group in changes.values() for unit in group]
    results = _results(planned, args, console)
    _report(results, worlds, size, () if args.no_grid else plan.settings_of(size), console)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.control", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder with the traces")
    parser.add_argument(
        "--quick", action="store_true", help=f"{plan.QUICK.budget}; else {plan.WHOLE.budget}"
    )
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--no-clairvoyant", action="store_true", help="without the search for the bound"
    )
    parser.add_argument(
        "--no-grid", action="store_true", help="without the search for the best single setting"
    )
    parser.add_argument(
        "--no-sensitivity", action="store_true", help="without changes of the law's defaults"
    )
    parser.add_argument(
        "--ablations", action="store_true", help="only the law without each of its parts"
    )
    return parser.parse_args()


def _results(planned: Sequence[Unit], args: argparse.Namespace, console: Console) -> list[Result]:
    """Return all results: those of earlier runs of the same code and traces, and new ones, which are stored as they finish."""
    folder: Path = args.traces
    known, finished, left = store.ResultStore(folder), list[Result](), list[Unit]()
    for unit in planned:
        stored = [known.result(job) for job in unit.jobs]
        done = [result for result in stored if result is not None]
        if len(done) == len(stored) or (unit.until_missed and _missed(done)):
            finished += done
        else:
            left.append(unit)
    with Progress(console=console) as progress:
        task = progress.add_task("runs", total=len(planned), completed=len(planned) - len(left))
        for results in run_units(left, args.cores):
            store.add(results, folder)
            finished += results
            progress.advance(task)
    return finished


def _missed(done: Sequence[Result]) -> bool:
    return any(not attained(result) for result in done)


def _report(
    all_results: Sequence[Result],
    worlds: dict[str, list[Unit]],
    size: plan.RunSize,
    settings: Sequence[str],
    console: Console,
) -> None:
    """Print and write the figures; `settings` are the candidates for the best single setting, none without the grid."""
    plain = {unit.jobs[0] for group in worlds.values() for unit in group}
    results = [
        result for result in all_results if result.job not in plain and result.job.changed is None
    ]
    best = figures.best_single_settings(results, settings)
    oracle = figures.oracle_settings(results, settings)
    rows, score = figures.rows(results), figures.score(results, best)
    targets = figures.target_figures(score)
    named = {name: {unit.jobs[0] for unit in group} for name, group in worlds.items()}
    others = [
        (name, result)
        for name, jobs in named.items()
        for result in all_results
        if result.job in jobs
    ]
    base = [result for result in results if result.job.law == plan.DEFAULT]
    changes = figures.changes(
        base, [result for result in all_results if result.job.changed is not None]
    )
    recoveries = [recovery.recovery(law) for law in plan.LAWS]
    console.print(show.laws(rows, best))
    bounds = figures.clairvoyant_by_trace(results)
    console.print(show.bounds(rows, bounds, oracle if settings else None))
    console.print(show.variants(others))
    console.print(recovery.table(recoveries))
    if changes:
        console.print(show.changes(changes))
    console.print(show.targets(targets))
    _write({
        "commit": commits.head(), "defaults_frozen_at": asdict(commits.frozen()), "code": store.digest(store.WORLD + store.OWN_LAWS), "size": asdict(size),
        "split": {"parts": plan.PARTS, "without_target": plan.WITHOUT_TARGET},
        "targets": [asdict(figure) | {"met": figure.met} for figure in targets], "score": asdict(score),
        "best_single_setting": best, "oracle_setting": oracle, "rows": [asdict(row) for row in rows],
        "recovery": [asdict(row) for row in recoveries], "sensitivity": [asdict(row) for row in changes],
        "runs": [store.as_json(result) for result in all_results],
    })  # fmt: skip
    console.print(f"figures {OUT}")


def _write(record: dict[str, object]) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
