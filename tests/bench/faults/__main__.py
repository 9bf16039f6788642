"""`make fault-table`: losses, wrong-way moves and recovery time of a pool under load for each injected fault.

Each fault affects a pool of three replicas under a steady open-loop load on the real test cluster. A line contains
requests, losses, rejections, wrong-way moves of cap or replicas, and the seconds until the pool and its clients have
recovered and acknowledged a new edit. The exit code is 1 if a line fails: requests lost outside a killed pod, a
wrong-way move, or no recovery within two minutes.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from rich.console import Console

from tests.bench.faults import outcome, show, table
from tests.bench.faults.fault import Fault
from tests.bench.faults.outcome import Suffered
from tests.bench.faults.running import Making
from tests.bench.faults.stage import RATE, FaultStage, stage
from tests.support.kube.target import Target
from tests.support.load.load import Load

LEAD_SECONDS = 35
"""Lead time: the law averages rates over 20 s and underestimates the load before."""
CALM_SECONDS = 10
WIDTH = 120
"""Minimum width of the printed table."""


def main() -> int:
    """Run the chosen faults, print and write."""
    args, console, target = _arguments(), Console(), Target.from_env()
    console.width = max(console.width, WIDTH)
    if target.foreign:
        console.print(
            "the fault table stops parts of the cluster, so it runs only on the project's own"
        )
        return 2
    chosen = [
        fault
        for fault in table.all_faults()
        if not args.only or any(word in fault.name for word in args.only)
    ]
    args.folder.mkdir(parents=True, exist_ok=True)
    with stage(target, args.folder.resolve()) as standing:
        suffered = asyncio.run(_run(standing, chosen, console, args.out))
    console.print(show.rich_table(suffered))
    console.print(f"figures {args.out}")
    return 1 if any(outcome.failures(result) for result in suffered) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.faults", description=__doc__)
    parser.add_argument(
        "--only", nargs="*", help="only faults whose name contains one of these words"
    )
    parser.add_argument("--out", type=Path, default=Path("build/bench/faults.json"))
    parser.add_argument("--folder", type=Path, default=Path("build/bench/faults"), help="for logs")
    return parser.parse_args()


async def _run(
    standing: FaultStage, chosen: list[Fault], console: Console, out: Path
) -> list[Suffered]:
    """Run the faults one after the other under one load; results are written after each."""
    suffered: list[Suffered] = []
    pool = standing.pool
    async with Load(pool.url(), pool.name, rate=RATE, constant=True) as load:
        while len(load.reports) < LEAD_SECONDS:
            await load.next()
        standing.let_go()
        for _ in range(CALM_SECONDS):
            await load.next()
        for fault in chosen:
            making = Making(standing, fault, load, load.reports[LEAD_SECONDS - 1])
            suffered.append(await asyncio.to_thread(making.run))
            console.print(show.line(suffered[-1]), soft_wrap=True, markup=False)
            _write(suffered, out)
    for note in load.final.notes:
        console.print(note, soft_wrap=True, markup=False)
    return suffered


def _write(suffered: list[Suffered], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps([outcome.as_json(result) for result in suffered], indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
