"""`make bench-edits`: time until all pods of a pool acknowledge an edit of a policy, on the test cluster.

One pool of twenty light, Ready pods of the emulated accelerator; fifty consecutive edits of a policy's bound on the batch
size. Each is timed from just before the PATCH until a watch of the pool shows `status.batch` with the new cap and all
pods acknowledged. The pods are idle, so only the propagation of the edit is measured.
"""

import argparse
import json
import random
import time
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.progress import track

from tests.bench.edits.watching import EditWatch, watching
from tests.support.kube import install
from tests.support.kube.api import POOLS, Api, Object
from tests.support.kube.install import Images
from tests.support.kube.pools import PoolHandle, emulated, until
from tests.support.kube.target import Target

OUT = Path("build/bench/edits.json")
NAMESPACE, POLICY = "bench-edits", "bench-edits"
LARGEST = 64
CAPS = (16, 24, 32, 48)
PAUSE_SECONDS = (0.2, 1.2)
"""Random pause between edits, so that they fall anywhere between two ticks."""
START_SECONDS = 420.0
EDIT_SECONDS = 30.0


def main() -> None:
    """Measure, print and write."""
    args = _arguments()
    console, target = Console(), Target.from_env()
    api, images = target.api(), Images.of_checkout()
    install.install_prometheus(target, api, images)
    install.clear_stage(target, api)
    install.install_operator(target, images)
    try:
        pool = _staged(api, args.pods, console)
        with watching(api, pool.path) as seen:
            edits = [
                _edited(api, seen, args.pods, CAPS[number % len(CAPS)])
                for number in track(range(args.edits), "edits", console=console)
            ]
        _report(args, edits, console)
    finally:
        api.delete(f"{POOLS}/inferencepolicies/{POLICY}")
        api.delete(f"/api/v1/namespaces/{NAMESPACE}")
        target.helm(
            "uninstall", install.RELEASE, "-n", install.OPERATOR_NAMESPACE, "--ignore-not-found",
            "--wait",
        )  # fmt: skip
        until("its pods gone", lambda: not _pods(api), seconds=180)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.edits", description=__doc__)
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--edits", type=int, default=50)
    return parser.parse_args()


def _pods(api: Api) -> list[Object]:
    return api.list(f"/api/v1/namespaces/{NAMESPACE}/pods")


def _staged(api: Api, pods: int, console: Console) -> PoolHandle:
    """Apply policy and pool, and wait until all pods acknowledge the limits."""
    install.ensure_namespace(api, NAMESPACE)
    _edit(api, CAPS[-1])
    pool = PoolHandle(api, NAMESPACE, "many")
    size = {"mode": "Fixed", "size": {"min": 1, "max": LARGEST}}
    pool.apply(emulated(replicas=pods, batching=size, drain={"deadlineSeconds": 5}))

    def acknowledged() -> bool | str:
        batch = pool.get().get("status", {}).get("batch", {})
        count, cap = batch.get("acknowledgedPods", 0), batch.get("cap")
        return (count == pods and cap == CAPS[-1]) or f"{count} of {pods} acknowledged"

    with console.status(f"{pods} pods start"):
        took = until(f"{pods} pods acknowledged", acknowledged, seconds=START_SECONDS, every=1.0)
    console.print(f"{pods} pods Ready and acknowledged after {took:.0f} s")
    return pool


def _edit(api: Api, cap: int) -> Object:
    """Bound the batch size, as an administrator's apply does."""
    return api.apply(
        {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "InferencePolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "bounds": {"batchSize": {"max": cap}},
            },
        }
    )


def _edited(api: Api, seen: EditWatch, pods: int, cap: int) -> dict[str, float]:
    """Make one edit, and return the seconds until it was published, and until all pods acknowledged it."""
    time.sleep(random.uniform(*PAUSE_SECONDS))  # noqa: S311
    began = time.monotonic()
    _edit(api, cap)
    accepted = time.monotonic()
    published = seen.when(lambda batch: batch.get("cap") == cap, EDIT_SECONDS)
    acknowledged = seen.when(
        lambda batch: batch.get("cap") == cap and batch.get("acknowledgedPods") == pods,
        EDIT_SECONDS,
    )
    return {
        "accepted_seconds": accepted - began,
        "published_seconds": published - began,
        "acknowledged_seconds": acknowledged - began,
    }


def _report(args: argparse.Namespace, edits: list[dict[str, float]], console: Console) -> None:
    report: dict[str, Any] = {"pods": args.pods, "edits": len(edits)}
    for key in ("accepted_seconds", "published_seconds", "acknowledged_seconds"):
        values = sorted(edit[key] for edit in edits)
        report[key] = {
            "p50": quantile(values, 0.5),
            "p99": quantile(values, 0.99),
            "mean": mean(values),
            "max": values[-1],
        }
        line = ", ".join(f"{name} {value:.2f} s" for name, value in report[key].items())
        console.print(f"{key.removesuffix('_seconds'):13} {line}")
    report["each"] = edits
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(report, indent=1) + "\n")
    console.print(f"figures {OUT}")


def quantile(ordered: list[float], share: float) -> float:
    """Return the value that at least this share of the values do not exceed."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


if __name__ == "__main__":
    main()
