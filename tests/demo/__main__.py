"""`make demo`: runs a pool on a real Kubernetes under rising and falling load with live edits, and reports the result.

The exit code is 1 if a request was lost or answered wrongly, or if the batch cap or the replicas never changed.
The cluster and the pool stay; the last page prints the commands that delete them.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from tests.demo import closing, outcome, plot, traffic
from tests.demo.director import Director
from tests.demo.outcome import Run
from tests.demo.stage import fresh_pool
from tests.demo.table import Screen
from tests.support.kube import install
from tests.support.kube.install import Images
from tests.support.kube.pools import PoolHandle
from tests.support.kube.target import Target
from tests.support.load.load import Load

RESULTS = install.ROOT / "build" / "demo"


def main() -> int:
    """Install everything, run the demo, and write the results."""
    console = Console()
    target, run = Target.from_env(), Run()
    pool, load = _set_stage(console, target, run)
    floor = pool.get()["spec"]["scaling"]["minReplicas"]
    with Screen(console) as screen:
        asyncio.run(Director(target, pool, load, screen, run, floor).perform())
    return _close(console, target, run)


def _set_stage(console: Console, target: Target, run: Run) -> tuple[PoolHandle, Load]:
    api = target.api()
    with _timed(console, run, "images"):
        images = Images.of_checkout()
    with _timed(console, run, "Prometheus"):
        install.install_prometheus(target, api, images)
    with _timed(console, run, "helm install of the operator"):
        install.install_operator(target, images)
    with _timed(console, run, "the chart's samples, cleared and applied"):
        pool, run.timings["apply to Ready"] = fresh_pool(target, api)
    console.print(f"  apply to Ready: {run.timings['apply to Ready']:.1f} s")
    runner = traffic.runner(target, api, pool.namespace, images.runtime)
    return pool, Load(pool.url(), pool.name, runner=runner)


@contextmanager
def _timed(console: Console, run: Run, step: str) -> Iterator[None]:
    console.print(f"{step} ...")
    began = time.monotonic()
    yield
    run.timings[step] = round(time.monotonic() - began, 1)
    console.print(f"  {step}: {run.timings[step]:.1f} s")


def _close(console: Console, target: Target, run: Run) -> int:
    picture, record = RESULTS / "run.png", RESULTS / "run.json"
    plot.draw(run.moments, picture)
    record.write_text(json.dumps(outcome.as_json(run), indent=1) + "\n")
    for line in closing.page(run, str(picture), str(record), target):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    return 1 if outcome.failures(run) else 0


if __name__ == "__main__":
    sys.exit(main())
