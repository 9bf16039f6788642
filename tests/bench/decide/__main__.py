"""`make bench-decide`: duration of the decide step with 10, 1,000 and 5,000 active pools.

Each pool has three Ready pods with new samples, and nothing is due to be written. The bench also counts the queries to
Prometheus in one tick of as many pools, over a real socket.
"""

import argparse
import asyncio
import gc
import json
import platform
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from penstock_operator import __main__
from tests.bench.decide import loop
from tests.bench.decide.fleet import PODS, TICK, Fleet
from tests.bench.decide.rounds import measure_queries

OUT = Path("build/bench/decide.json")
OUT_LOOP = Path("build/bench/loop.json")
SIZES = (10, 1000, 5000)
WARM_TICKS = 6
"""Ticks until windows are full, curves are fitted, and counts and caps are stable."""


def main() -> None:
    """Measure, print and write."""
    args = _arguments()
    gc.set_threshold(*__main__.GC_THRESHOLDS)
    console = Console()
    if args.loop:
        _loop(args, console)
        return
    results = [_measured(size, args.ticks, console) for size in args.pools]
    table = Table(title=f"one decide step, {PODS} pods a pool, every pool with new samples")
    for heading in ("pools", "p50 ms", "most ms", "CPU ms a pool", "x 10 pools", "CPU of a tick"):
        table.add_column(heading, justify="right")
    base = results[0]["cpu_milliseconds_per_pool"]
    for result in results:
        table.add_row(
            f"{result['pools']}", f"{result['p50_milliseconds']:.1f}", f"{result['max_milliseconds']:.1f}",
            f"{result['cpu_milliseconds_per_pool']:.2f}", f"{result['cpu_milliseconds_per_pool'] / base:.2f}",
            f"{result['cpu_p50_milliseconds'] / 10 / TICK:.1f} %",
        )  # fmt: skip
    console.print(table)
    queried = [{"pools": size, **asyncio.run(measure_queries(size))} for size in args.pools]
    for each in queried:
        console.print(
            f"{each['pools']} pools, {each['pods']} pods, {each['passes']} passes in one tick:"
            f" {each['rounds']} round of {each['questions']} queries, {each['megabytes']:.1f} MB"
            f" (the largest answer {each['largest_megabytes']:.1f}),"
            f" {each['seconds']:.2f} s to query and sort, {each['cpu_seconds']:.2f} s of CPU with the server's"
        )
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(
        json.dumps({"decide": results, "prometheus": queried, **machine}, indent=1) + "\n"
    )
    console.print(f"figures {OUT}")


def _loop(args: argparse.Namespace, console: Console) -> None:
    results = [asyncio.run(loop.run(_settled(size, console), args.loop)) for size in args.pools]
    table = Table(title=f"the loop over active pools, {args.loop:.0f} s each")
    for heading in results[0]:
        table.add_column(heading.replace("_", " "), justify="right")
    for result in results:
        table.add_row(*(f"{value:.6g}" for value in result.values()))
    console.print(table)
    OUT_LOOP.parent.mkdir(parents=True, exist_ok=True)
    OUT_LOOP.write_text(json.dumps({"loop": results}, indent=1) + "\n")
    console.print(f"figures {OUT_LOOP}")


def _settled(size: int, console: Console) -> Fleet:
    with console.status(f"{size} pools: settling"):
        fleet = Fleet.of(size)
        for _ in range(WARM_TICKS):
            fleet.settle(fleet.decide(fleet.observed()))
        fleet.grow_old()
    gc.collect()
    return fleet


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.decide", description=__doc__)
    parser.add_argument("--pools", type=int, nargs="+", default=SIZES)
    parser.add_argument(
        "--loop",
        type=float,
        default=0.0,
        help="seconds to run the operator's loop over each size, instead",
    )
    parser.add_argument("--ticks", type=int, default=10, help="to measure, after the warm ones")
    return parser.parse_args()


def _measured(size: int, ticks: int, console: Console) -> dict[str, Any]:
    fleet = _settled(size, console)
    took, busy, writes = [], [], 0
    for tick in range(ticks):
        observed = fleet.observed()
        with console.status(f"{size} pools: tick {tick + 1} of {ticks}"):
            began, worked = time.perf_counter(), time.process_time()
            plan = fleet.decide(observed)
            took.append(1000 * (time.perf_counter() - began))
            busy.append(1000 * (time.process_time() - worked))
        assert not plan.failures, plan.failures[0].error
        writes += sum(len(result.writes) for result in plan.pools)
        fleet.settle(plan)
    middle, own = sorted(took)[len(took) // 2], sorted(busy)[len(busy) // 2]
    return {
        "pools": size,
        "pods": size * PODS,
        "p50_milliseconds": middle,
        "max_milliseconds": max(took),
        "cpu_p50_milliseconds": own,
        "cpu_milliseconds_per_pool": own / size,
        "writes": writes,
    }


if __name__ == "__main__":
    main()
