"""`make bench-scale`: resource usage of an operator with 10, 1,000 and 5,000 pools.

A real etcd, API server and Deployment controller run in a separate network namespace; nodes and kubelets are fake, and
one process answers for all pods. Each pool has one idle pod. The bench measures the time until all pools are Ready, a
restart of the operator, and then ticks, CPU, memory and writes (by the API server's audit log) in a quiet period. Above
`--most-made` pools, one pool is created and the others are copied from it (`copies.py`).
"""

import argparse
import asyncio
import json
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.scale.audit import writes_since
from tests.bench.scale.kubelet import keep_serving
from tests.bench.scale.multiply import multiply
from tests.bench.scale.operator import OperatorMetrics, ScaleOperator
from tests.bench.scale.plane import NAMESPACE, Plane, enter_network, running
from tests.bench.scale.pods import Pods
from tests.bench.scale.watch import ScaleWatch
from tests.support.kube.api import Api
from tests.support.kube.install import install_crds

OUT = Path("build/bench/scale.json")
SYSTEM = "bench-system"


def main() -> None:
    """Measure each size in a separate control plane, print and write."""
    args = _arguments()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("ended")
    )  # SystemExit also ends the child processes
    enter_network()
    console = Console(width=180)
    results = []
    for size in args.pools:
        with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder:
            results.append(asyncio.run(_measured(size, args, Path(folder), console)))
    table = Table(title="one operator over idle pools of one pod each")
    columns = {
        "pools": "pools", "made": "pools_made", "all Ready s": "made_seconds", "restart s": "restart_seconds", "RSS MB": "resident_megabytes",
        "most MB": "most_megabytes",        "CPU %": "cpu_percent", "pass ms": "pass_milliseconds", "decide ms": "decide_milliseconds",
        "oldest decision s": "oldest_seconds", "writes/s making": "writes_per_second_making", "writes quiet": "writes_quiet",
    }  # fmt: skip
    for heading in columns:
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(*(f"{result[name]:.10g}" for name in columns.values()))
    console.print(table)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"scale": results, "quiet_seconds": args.quiet}, indent=1) + "\n")
    console.print(f"figures {OUT}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.scale", description=__doc__)
    parser.add_argument("--pools", type=int, nargs="+", default=(10, 1000, 5000))
    parser.add_argument(
        "--most-made",
        type=int,
        default=1000,
        help="above this, one pool is created and copied in etcd",
    )
    parser.add_argument(
        "--settling",
        type=float,
        default=240.0,
        help="seconds before the measurement: statuses are written after four scrapes of an idle pool, and a minute later",
    )
    parser.add_argument("--quiet", type=float, default=120.0, help="seconds of the measurement")
    parser.add_argument(
        "--patience",
        type=float,
        default=300.0,
        help="seconds without progress after which the bench gives up",
    )
    return parser.parse_args()


@dataclass(frozen=True, slots=True)
class ScaleRun:
    """A control plane with its operator and pods."""

    plane: Plane
    operator: ScaleOperator
    pods: Pods
    console: Console


async def _measured(
    size: int, args: argparse.Namespace, folder: Path, console: Console
) -> dict[str, Any]:
    pods = Pods()
    with running(folder) as plane:
        await asyncio.to_thread(_install, plane.api)
        operator = ScaleOperator(plane.places.kubeconfig, SYSTEM, folder)
        async with pods.serving():
            kubelet = asyncio.create_task(keep_serving(plane.api, pods))
            try:
                return await _lived(size, args, ScaleRun(plane, operator, pods, console))
            finally:
                operator.stop()
                kubelet.cancel()


async def _lived(size: int, args: argparse.Namespace, world: ScaleRun) -> dict[str, Any]:
    operator, console = world.operator, world.console
    number = size if size <= args.most_made else 1
    watch = ScaleWatch(world.plane.api, operator, world.pods, number, args.patience, console)
    begun = time.monotonic()
    operator.start()
    created = await watch.until_all("created", grows=True)
    writes = created.figures["writes_total"]
    if number < size:
        console.print(f"{size} pools: the first one settles before it is copied")
        await asyncio.sleep(args.settling)
    operator.stop()
    if number < size:
        await asyncio.to_thread(_multiply, world, size)
        watch.grown(size)
    restarted = time.monotonic()
    operator.start()
    again = await watch.until_all("operator restarted")
    console.print(f"{size} pools: settling")
    await asyncio.sleep(args.settling)
    before, since = await _scraped(operator), datetime.now(UTC)
    console.print(f"{size} pools: {args.quiet:.0f} quiet seconds")
    await asyncio.sleep(args.quiet)
    after = await _scraped(operator)
    passed = after.at - before.at
    quiet = writes_since(world.plane.places.audit_log, since)
    return {
        "pools": size,
        "pools_made": number,
        "made_seconds": round(created.at - begun, 1),
        "restart_seconds": round(again.at - restarted, 1),
        "resident_megabytes": round(after.resident_megabytes),
        "most_megabytes": round(watch.most_megabytes),
        "cpu_percent": round(100 * (after.cpu_seconds - before.cpu_seconds) / passed, 1),
        "pass_milliseconds": _mean(before, after, "pass_duration_seconds"),
        "decide_milliseconds": _mean(before, after, "decide_duration_seconds"),
        "oldest_seconds": round(time.time() - min(after.last_decisions), 1),
        "decision_age_p50_seconds": round(time.time() - statistics.median(after.last_decisions), 1),
        "writes_per_second_making": round(writes / (created.at - begun), 1),
        "writes_quiet": len(quiet),
        "written_quiet": quiet[:20],
    }


def _multiply(world: ScaleRun, size: int) -> None:
    world.plane.stop_controllers()
    took = multiply(world.plane.api, world.pods, size)
    world.plane.start_controllers()
    world.console.print(f"{size} pools: copied in {took:.0f} s")


def _install(api: Api) -> None:
    install_crds(api)
    for name in (NAMESPACE, SYSTEM):
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def _scraped(operator: ScaleOperator) -> OperatorMetrics:
    metrics = await asyncio.to_thread(operator.scrape)
    assert metrics is not None, "the operator does not answer"
    return metrics


def _mean(before: OperatorMetrics, after: OperatorMetrics, name: str) -> float:
    """Return the mean of a histogram's observations between two times, in milliseconds."""
    seconds = after.figures[f"{name}_sum"] - before.figures[f"{name}_sum"]
    number = after.figures[f"{name}_count"] - before.figures[f"{name}_count"]
    return round(1000 * seconds / max(number, 1.0), 1)


if __name__ == "__main__":
    main()
