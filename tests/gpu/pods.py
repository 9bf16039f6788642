"""Pods of the run: real runtime processes on loopback that use the device."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.bench.generation import models
from tests.bench.generation.http import give_tokenizer
from tests.gpu.plan import Setting
from tests.support.environment import inherited
from tests.support.runtime.process import RuntimeProcess, start

CHECKOUT = Path(__file__).parents[2]
CACHE_BYTES = 1 << 30
CLAIM = {
    "type": "PersistentVolumeClaim",
    "persistentVolumeClaim": {"claimName": "gpu", "path": "."},
}


@contextmanager
def ended() -> Iterator[list[RuntimeProcess]]:
    """Yield a list for pods; those that still run are killed at the end."""
    pods: list[RuntimeProcess] = []
    try:
        yield pods
    finally:
        for pod in pods:
            pod.kill()


def generating(
    model: Path,
    setting: Setting,
    limits: dict[str, Any],
    program: str = "penstock_runtime",
    **more: str,
) -> RuntimeProcess:
    """Start a pod that generates text with the model in a folder; `program` is its module."""
    give_tokenizer(model, models.VOCABULARY)
    return pod(
        setting, {"name": "gpu", "task": "TextGeneration", "source": CLAIM}, limits, program,
        PENSTOCK_MODEL_FOLDER=str(model.resolve()),
        PENSTOCK_COMPUTE_BACKEND="Torch",
        PENSTOCK_CACHE_BYTES=str(setting.size(CACHE_BYTES, 1 << 24)),
        **more,
    )  # fmt: skip


def pod(
    setting: Setting,
    model: dict[str, Any],
    limits: dict[str, Any],
    program: str = "penstock_runtime",
    **more: str,
) -> RuntimeProcess:
    """Start a pod of any model in a folder of its own."""
    setting.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(prefix="pod-", dir=setting.folder.resolve()))
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    accept = setting.size("2", "0.2")
    ours = {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PENSTOCK_ACCEPT_SECONDS": accept}
    environment: dict[str, Any] = {**inherited(), **ours, **more}
    return start(folder, model=model, limits=limits, program=program, **environment)


def ready(pods: list[RuntimeProcess]) -> None:
    """Wait until all are ready.

    Raises:
        RuntimeError: a pod ended, or was not ready in time; the message has the end of its log.
    """
    for each in pods:
        try:
            each.ready()
        except AssertionError as error:
            lines = each.log.read_text().strip().splitlines() or ["no log"]
            raise RuntimeError(f"{each.folder.name} is not ready: {lines[-1]}") from error


def generation_limits(running: int, waiting: int) -> dict[str, Any]:
    """Return limits of a generating pod."""
    return {
        "generation": 1, "maxBatchSize": running, "maxQueueDepth": waiting,
        "maxQueueDelayMilliseconds": 0, "discipline": "Priority", "preemption": "LowerPriority",
        "maxBatchedTokens": 512,
    }  # fmt: skip
