"""The fault table: what a pool under load loses, moves and needs for each thing that may go wrong. `make fault-table`.

Each fault falls on a pool of three that serves a steady open loop, on the real test cluster: requests, lost, refused, moves of
the valves the wrong way, seconds until the pool and its clients are as before and obey a new edit. Exit code 1 when a line
is not as it must be: requests lost outside a pod that was taken, a move the wrong way, no recovery within two minutes.
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
"""The law sees rates over 20 s: until then it would take the load for a smaller one."""
CALM_SECONDS = 10
WIDTH = 120
"""Of the table, where the console is none."""


def main() -> int:
    """Run the chosen faults, print and write."""
    args, console, target = _arguments(), Console(), Target.from_env()
    console.width = max(console.width, WIDTH)
    if target.foreign:
        console.print(
            "the fault table stops parts of a cluster: it runs on the project's own alone"
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
    return 1 if any(outcome.failures(one) for one in suffered) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.faults", description=__doc__)
    parser.add_argument("--only", nargs="*", help="those whose names hold one of these words")
    parser.add_argument("--out", type=Path, default=Path("build/bench/faults.json"))
    parser.add_argument("--folder", type=Path, default=Path("build/bench/faults"), help="for logs")
    return parser.parse_args()


async def _run(
    standing: FaultStage, chosen: list[Fault], console: Console, out: Path
) -> list[Suffered]:
    """Run one fault after the other under one load; what is known is written after each."""
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
    out.write_text(json.dumps([outcome.as_json(one) for one in suffered], indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
