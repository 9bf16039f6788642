"""What an operator needs for 10, 1,000 and 5,000 pools: `make bench-scale`.

A real etcd, API server and Deployment controller in a network of their own; nodes and kubelets are pretended, and one process
answers for all pods. Each pool has one idle pod. Measured: from nothing to all pools Ready, a restart of the operator over
them, then a quiet while: ticks, CPU, memory, writes (the API server's audit log counts them).
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from tests.bench.scale.audit import writes_since
from tests.bench.scale.kubelet import keep_serving
from tests.bench.scale.operator import Operator, Told
from tests.bench.scale.plane import NAMESPACE, enter_network, running
from tests.bench.scale.pods import Pods
from tests.bench.scale.watch import Watch
from tests.cluster.places import Places
from tests.kube.api import POOLS, Api, ApiError
from tests.kube.pools import until

OUT = Path("build/bench/scale.json")
CRDS = Path(__file__).parents[3] / "crds"
SYSTEM = "bench-system"
KINDS = ("inferencepools", "inferencepolicies")
SETTLING_SECONDS = 90.0
"""Figures are written a minute after the first ones."""


def main() -> None:
    """Measure each size in a control plane of its own, print and write."""
    args = _arguments()
    enter_network()
    console = Console(width=140)
    found = []
    for size in args.pools:
        with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder:
            found.append(asyncio.run(_measured(size, args, Path(folder), console)))
    table = Table(title="one operator over idle pools of one pod each")
    columns = {
        "pools": "pools", "all Ready s": "made_seconds", "restart s": "restart_seconds", "RSS MB": "resident_megabytes",
        "most MB": "most_megabytes",        "CPU %": "cpu_percent", "pass ms": "pass_milliseconds", "decide ms": "decide_milliseconds",
        "oldest decision s": "oldest_seconds", "writes/s making": "writes_per_second_making", "writes quiet": "writes_quiet",
    }  # fmt: skip
    for heading in columns:
        table.add_column(heading, justify="right")
    for one in found:
        table.add_row(*(f"{one[name]:.10g}" for name in columns.values()))
    console.print(table)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"scale": found, "quiet_seconds": args.quiet}, indent=1) + "\n")
    console.print(f"figures {OUT}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.scale", description=__doc__)
    parser.add_argument("--pools", type=int, nargs="+", default=(10, 1000, 5000))
    parser.add_argument("--quiet", type=float, default=120.0, help="seconds that are measured")
    parser.add_argument(
        "--patience",
        type=float,
        default=300.0,
        help="seconds in which nothing moves, and it gives up",
    )
    return parser.parse_args()


async def _measured(
    size: int, args: argparse.Namespace, folder: Path, console: Console
) -> dict[str, Any]:
    pods = Pods()
    with running(folder) as (api, places):
        await asyncio.to_thread(_install, api)
        operator = Operator(places.kubeconfig, SYSTEM, folder)
        async with pods.serving():
            kubelet = asyncio.create_task(keep_serving(api, pods))
            try:
                return await _lived(size, args, (api, places, operator, pods), console)
            finally:
                operator.stop()
                kubelet.cancel()


async def _lived(
    size: int, args: argparse.Namespace, world: tuple[Api, Places, Operator, Pods], console: Console
) -> dict[str, Any]:
    api, places, operator, pods = world
    watch = Watch(api, operator, pods, size, args.patience, console)
    begun = time.monotonic()
    operator.start()
    made = await watch.until_all("made", grows=True)
    writes = made.figures["writes_total"]
    operator.stop()
    restarted = time.monotonic()
    operator.start()
    again = await watch.until_all("the operator begins again")
    console.print(f"{size} pools: settling")
    await asyncio.sleep(SETTLING_SECONDS)
    before, since = await _told(operator), datetime.now(UTC)
    console.print(f"{size} pools: {args.quiet:.0f} quiet seconds")
    await asyncio.sleep(args.quiet)
    after = await _told(operator)
    passed = after.at - before.at
    quiet = writes_since(places.audit_log, since)
    return {
        "pools": size,
        "made_seconds": round(made.at - begun, 1),
        "restart_seconds": round(again.at - restarted, 1),
        "resident_megabytes": round(after.resident_megabytes),
        "most_megabytes": round(watch.most_megabytes),
        "cpu_percent": round(100 * (after.cpu_seconds - before.cpu_seconds) / passed, 1),
        "pass_milliseconds": _mean(before, after, "pass_duration_seconds"),
        "decide_milliseconds": _mean(before, after, "decide_duration_seconds"),
        "oldest_seconds": round(time.time() - min(after.last_decisions), 1),
        "decision_age_p50_seconds": round(time.time() - statistics.median(after.last_decisions), 1),
        "writes_per_second_making": round(writes / (made.at - begun), 1),
        "writes_quiet": len(quiet),
        "written_quiet": quiet[:20],
    }


def _install(api: Api) -> None:
    for file in sorted(CRDS.glob("*.yaml")):
        api.apply(yaml.safe_load(file.read_text()))
    for name in (NAMESPACE, SYSTEM):
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    until("the CRDs are served", lambda: all(_served(api, one) is True for one in KINDS))


def _served(api: Api, plural: str) -> bool | str:
    try:
        return api.get(f"{POOLS}/{plural}") is not None
    except ApiError as error:  # 429 while its storage begins
        return str(error)


async def _told(operator: Operator) -> Told:
    told = await asyncio.to_thread(operator.tell)
    assert told is not None, "the operator does not answer any more"
    return told


def _mean(before: Told, after: Told, name: str) -> float:
    """Return the mean of a histogram's observations between two times, in milliseconds."""
    seconds = after.figures[f"{name}_sum"] - before.figures[f"{name}_sum"]
    number = after.figures[f"{name}_count"] - before.figures[f"{name}_count"]
    return round(1000 * seconds / max(number, 1.0), 1)


if __name__ == "__main__":
    main()
