"""`make bench-control`: every law on every trace, beside its bounds and targets (CONTROL, "How good is good")."""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import track

from penstock_simulator.scenario import Loss, Routing
from tests.bench.control import figures, plan, recovery, show
from tests.bench.control.jobs import CLAIRVOYANT, Job, Result, carry_out_all

OUT = Path("build/bench/control.json")
WIDTH = 110
VARIANTS: dict[str, dict[str, object]] = {
    "power-of-two": {"routing": Routing.POWER_OF_TWO},
    "central queue": {"routing": Routing.CENTRAL_QUEUE},
    "20 % of samples lost": {"loss": Loss(share=0.2)},
    "no signals, minutes 8-10": {"loss": Loss(outages=((480.0, 600.0),))},
}


def main() -> int:
    """Run the bench; the exit status is 1 only where a trace cannot be read."""
    args = _arguments()
    size = plan.QUICK if args.quick else plan.WHOLE
    console = Console()
    console.width = max(console.width, WIDTH)
    missing = [name for name in plan.TRACES.values() if not (args.traces / name).is_file()]
    if missing:
        console.print(f"no {', '.join(missing)} in {args.traces}: say where by TRACES=folder")
        return 1
    console.print(f"commit {_commit()}; {'quick' if args.quick else 'whole'} form: {size.budget}")
    jobs = _jobs(args, size)
    results = list(track(carry_out_all(jobs, args.cores), "laws", len(jobs), console=console))
    best = figures.best_single_settings(results, plan.settings_of(size))
    score = figures.score(results, best)
    console.print(show.laws(figures.rows(results), best))
    console.print(show.targets(score))
    worlds = _variants(args, size)
    others = list(
        track(
            carry_out_all([job for _, job in worlds], args.cores),
            "worlds",
            len(worlds),
            console=console,
        )
    )
    named = [(name, one) for (name, _), one in zip(worlds, others, strict=True)]
    console.print(show.variants(named))
    recoveries = [recovery.recovery(law) for law in plan.LAWS]
    console.print(recovery.table(recoveries))
    _write({"commit": _commit(), "quick": args.quick, "score": asdict(score), "best_single_setting": best,
            "recovery": [asdict(one) for one in recoveries], "runs": [_json(one) for one in (*results, *others)]})  # fmt: skip
    console.print(f"figures {OUT}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.control", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder with the traces")
    parser.add_argument(
        "--quick", action="store_true", help=f"{plan.QUICK.budget}; else {plan.WHOLE.budget}"
    )
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument(
        "--no-clairvoyant", action="store_true", help="without the search for the bound"
    )
    parser.add_argument(
        "--no-grid", action="store_true", help="without the search for the best single setting"
    )
    return parser.parse_args()


def _jobs(args: argparse.Namespace, size: plan.Size) -> list[Job]:
    laws = list(plan.LAWS)
    if not args.no_grid:
        laws += [law for law in plan.settings_of(size) if law not in laws]
    if not args.no_clairvoyant:
        laws.append(CLAIRVOYANT)
    return [
        Job(args.traces, trace, size.seconds, law, seed, cold, caps=size.caps)
        for trace in plan.TRACES
        for seed in size.seeds
        for cold in size.cold_medians
        for law in laws
    ]


def _variants(args: argparse.Namespace, size: plan.Size) -> list[tuple[str, Job]]:
    return [
        (name, Job(args.traces, trace, size.seconds, plan.DEFAULT, **different))  # type: ignore[arg-type]
        for name, different in VARIANTS.items()
        for trace in plan.TRACES
    ]


def _json(one: Result) -> dict[str, object]:
    job = asdict(one.job) | {"folder": one.job.folder.name}
    figures_of = None if one.outcome is None else one.outcome.as_json()
    return {"job": job, "outcome": figures_of, "fluid_gpu_hours": one.fluid_gpu_hours}


def _write(found: dict[str, object]) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1, default=str) + "\n", encoding="utf-8")


def _commit() -> str:
    command: Sequence[str] = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
