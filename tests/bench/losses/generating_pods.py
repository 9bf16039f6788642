"""`GeneratingPod`: a runtime with a tiny model, forked from a process that has imported torch.

A start takes a fraction of the CPU of a new interpreter. Models compute in float64 with batch-invariant steps, so that
the bytes of an answer do not depend on what else a pod computes, nor on the pods that computed it.
"""

import asyncio
import json
import multiprocessing
import os
import runpy
import sys
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from penstock_api import names

SOURCE: Final = {
    "type": "PersistentVolumeClaim",
    "persistentVolumeClaim": {"claimName": "tiny", "path": "."},
}
PRELOADED: Final = [
    "penstock_runtime.main",
    "penstock_runtime.serving.generation.assembly",
    "penstock_runtime.models.decoders.open",
    "transformers.models.llama.modeling_llama",
]
ACCEPT_SECONDS: Final = "1"
DEADLINE_SECONDS: Final = "2.5"
"""Of the drain: the pod hands over what it has not completed half a second after its SIGTERM."""
CLUSTER_PORT: Final = 8001
READY_SECONDS: Final = 240.0
_CONTEXT: Final = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class GeneratingPod:
    """A runtime process at an address of its own."""

    address: str
    process: BaseProcess

    async def until_ready(self, session: aiohttp.ClientSession) -> None:
        """Wait for `/readyz`."""
        async with asyncio.timeout(READY_SECONDS):
            while not await self._is_ready(session):
                assert self.process.is_alive(), f"{self.address} ended before it was ready"
                await asyncio.sleep(0.05)

    async def taken_over(self, session: aiohttp.ClientSession) -> int:
        """Return the number of generations that this pod has taken over from others."""
        async with session.get(f"http://{self.address}:{CLUSTER_PORT}/metrics") as answer:
            text = await answer.text()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "penstock_handovers_total" and sample.labels == {
                    "result": "taken_over"
                }:
                    return int(sample.value)
        raise AssertionError(f"no penstock_handovers_total in {text}")

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.terminate()

    async def wait(self) -> None:
        """Wait until the process has ended."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self.process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self.process.sentinel)

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"http://{self.address}:{CLUSTER_PORT}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False


def start(address: str, peer_url: str, model: Path, folder: Path) -> GeneratingPod:
    """Start a pod that serves the model in the folder `model`; `folder` is the pod's own."""
    folder.mkdir()
    settings = {
        "PENSTOCK_MODEL": json.dumps({"name": "tiny", "task": "TextGeneration", "source": SOURCE}),
        "PENSTOCK_MODEL_FOLDER": str(model),
        "PENSTOCK_SETTINGS_FOLDER": str(folder),
        "PENSTOCK_TERMINATION_LOG": str(folder / "termination-log"),
        "PENSTOCK_INSECURE_CONTROL": "true",
        "PENSTOCK_PLACEMENT": "Thread",
        "PENSTOCK_BATCH_INVARIANT": "true",
        "PENSTOCK_CLIENT_PORT": str(names.CLIENT_PORT),
        "PENSTOCK_ACCEPT_SECONDS": ACCEPT_SECONDS,
        names.ENV_HOST: address,
        names.ENV_CLUSTER_PORT: str(CLUSTER_PORT),
        names.ENV_COMPUTE_BACKEND: "Torch",
        names.ENV_DTYPE: "float64",
        names.ENV_CACHE_BYTES: str(1 << 24),
        names.ENV_PEER_URL: peer_url,
        names.ENV_DRAIN_DEADLINE_SECONDS: DEADLINE_SECONDS,
        names.ENV_LOG_FORMAT: "json",
    }
    process = _CONTEXT.Process(target=_serve, args=(settings, str(folder / "log")), daemon=True)
    process.start()
    return GeneratingPod(address, process)


def preload() -> None:
    """Let the process from which pods are forked import what they need."""
    os.environ["OMP_NUM_THREADS"] = "1"
    _CONTEXT.set_forkserver_preload(PRELOADED)


def _serve(settings: dict[str, str], log: str) -> None:
    os.environ.update(settings)
    with Path(log).open("wb") as stream:
        os.dup2(stream.fileno(), sys.stderr.fileno())
    sys.argv = ["penstock_runtime"]
    runpy.run_module("penstock_runtime", run_name="__main__")
