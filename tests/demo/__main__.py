"""The show of `make demo`: runs a pool on a real Kubernetes under rising and falling load with live edits.

`tests.demo.start` prepares the machine and runs this in the project's environment. The exit code is 1 if a request was
lost or answered wrongly, if the batch cap or the replicas never changed, or if a Ready chat pool gave no answer. The cluster
and the pools stay; the last page prints the commands that delete them.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from tests.demo import closing, outcome, picture, traffic, training
from tests.demo.director import Director
from tests.demo.epilogue import Epilogue
from tests.demo.outcome import Run
from tests.demo.stage import fresh_pool
from tests.demo.steps import announce
from tests.demo.table import Screen
from tests.support.kube import install
from tests.support.kube.install import Images
from tests.support.kube.pools import PoolHandle
from tests.support.kube.target import Target
from tests.support.load.load import Load

RESULTS = install.ROOT / "build" / "demo"


@dataclass(frozen=True, slots=True)
class Stage:
    """What the show needs: a served pool, the place of its load, and a chat pool in preparation."""

    pool: PoolHandle
    load: Load

    @property
    def objective_milliseconds(self) -> float:
        """Return the pool's objective for the 99th percentile of latency."""
        (objective,) = self.pool.get()["spec"]["objectives"]
        return float(objective["milliseconds"])

    @property
    def floor(self) -> int:
        """Return the pool's minReplicas."""
        return int(self.pool.get()["spec"]["scaling"]["minReplicas"])


def main() -> int:
    """Install everything, run the show, and write the results."""
    console, target, run = Console(), Target.from_env(), Run()
    announce("install")
    stage = _set_stage(console, target, run)
    run.objective_milliseconds = stage.objective_milliseconds
    announce("show")
    epilogue = Epilogue(target, stage.load.runner, console)
    with Screen(console) as screen:
        director = Director(target, stage.pool, stage.load, screen, run, stage.floor)
        asyncio.run(director.perform())
    announce("chat")
    epilogue.perform(run)
    return _close(console, target, run)


def _set_stage(console: Console, target: Target, run: Run) -> Stage:
    api = target.api()
    with _timed(console, run, "images"):
        images = Images.of_checkout()
    with _timed(console, run, "Prometheus"):
        install.install_prometheus(target, api, images)
    with _timed(console, run, "helm install of the operator"):
        install.install_operator(target, images)
    with _timed(console, run, "the chart's samples, cleared and applied"):
        pool, run.timings["apply to Ready behind the gateway"] = fresh_pool(target, api)
    console.print(
        f"  apply to Ready behind the gateway: {run.timings['apply to Ready behind the gateway']:.1f} s"
    )
    runner = traffic.runner(target, api, pool.namespace, images.runtime)
    training.start(target, api, images.runtime)
    return Stage(pool, Load(pool.url(), pool.name, runner=runner))


@contextmanager
def _timed(console: Console, run: Run, step: str) -> Iterator[None]:
    console.print(f"{step} ...")
    began = time.monotonic()
    yield
    run.timings[step] = round(time.monotonic() - began, 1)
    console.print(f"  {step}: {run.timings[step]:.1f} s")


def _close(console: Console, target: Target, run: Run) -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    record = RESULTS / "run.json"
    record.write_text(json.dumps(outcome.as_json(run), indent=1) + "\n")
    pictures = picture.draw(run, RESULTS)
    for line in closing.page(run, [*map(str, pictures)], str(record), target):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    return 1 if outcome.failures(run) else 0


if __name__ == "__main__":
    sys.exit(main())
