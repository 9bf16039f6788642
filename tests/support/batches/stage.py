"""`Stage`: pods, a store and the batch service as processes on loopback, each of which a test kills and starts again."""

import asyncio
import json
import random
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import openai
from openai.types import Batch

from tests.support.batches.process import BatchesProcess
from tests.support.batches.redis_server import RedisServer
from tests.support.runtime.process import RuntimeProcess, start
from tests.unit.runtime.protocols.openai.served import save_tiny_model

T = TypeVar("T")
SOURCE = {
    "type": "PersistentVolumeClaim",
    "persistentVolumeClaim": {"claimName": "tiny", "path": "."},
}
LIMITS: dict[str, Any] = {
    "generation": 1, "maxBatchSize": 32, "maxQueueDepth": 32, "maxQueueDelayMilliseconds": 0,
    "discipline": "Priority", "preemption": "LowerPriority",
}  # fmt: skip
MODEL = "demo"


def free_port() -> int:
    """Return a port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PodProcess:
    """One pod that is started again where it was after a kill."""

    def __init__(
        self,
        folder: Path,
        limits: Mapping[str, Any] | None = None,
        program: str = "penstock_runtime",
        control_keys: Mapping[str, str] | None = None,
        **environment: str,
    ) -> None:
        """`program` is the pod's module, `control_keys` are an operator's, and `environment` has variables besides those of a tiny model."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._limits = LIMITS | dict(limits or {})
        self._program = program
        self._control_keys = control_keys
        self.port = free_port()
        self._environment: dict[str, Any] = {
            "PENSTOCK_MODEL_FOLDER": str(folder / "model"),
            "PENSTOCK_CACHE_BYTES": str(1 << 20),
            "PENSTOCK_CLIENT_PORT": str(self.port),
            **environment,
        }
        self.host = environment.get("PENSTOCK_HOST", "127.0.0.1")
        self.url = f"http://{self.host}:{self.port}"
        self.pod: RuntimeProcess | None = None
        save_tiny_model(folder / "model")

    def start(self) -> None:
        """Start the pod, without waiting."""
        self.pod = start(
            self._folder,
            model={"name": MODEL, "task": "TextGeneration", "source": SOURCE},
            limits=self._limits,
            program=self._program,
            control_keys=self._control_keys,
            **self._environment,
        )

    def ready(self) -> None:
        """Wait until the pod serves."""
        assert self.pod is not None
        self.pod.ready()
        applied = json.loads(self.pod.get("/control/v1/state")[1])
        assert applied["generation"] == self._limits["generation"], self.pod.log.read_text()

    def kill(self) -> None:
        """Kill the pod with SIGKILL."""
        if self.pod is not None:
            self.pod.kill()


class Stage:
    """The processes, and what kills them."""

    def __init__(
        self, folder: Path, store: str, pods: list[PodProcess], pool_url: str, **environment: str
    ) -> None:
        """`store` is sqlite or redis; the service gets `environment`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.pods = pods
        self.redis: RedisServer | None = None
        self._folder = folder
        self._environment = {"PENSTOCK_POOLS": f"{MODEL}={pool_url}", **environment}
        if store == "redis":
            (folder / "redis").mkdir()
            self.redis = RedisServer(folder / "redis")
            self.redis.start()
            self._environment |= {"PENSTOCK_STORE": "Redis", "PENSTOCK_REDIS_URL": self.redis.url}
        self._port = free_port()
        self.service = self._service()
        self.url = f"http://127.0.0.1:{self._port}/v1"
        for pod in pods:
            pod.start()
        self.service.start()

    def ready(self) -> None:
        """Wait until everything serves."""
        for pod in self.pods:
            pod.ready()
        self.service.listening()

    def restart_service(self, **environment: str) -> None:
        """Kill the service, and start it with other variables."""
        self.service.kill()
        self.service = self._service(**environment)
        self.service.start()

    def plan(self, kills: int, pod_kills: int, chance: random.Random) -> list[str]:
        """Return what to kill, in a random order."""
        others = ["service", "redis"] if self.redis else ["service"]
        kinds = ["pod"] * pod_kills + [others[n % len(others)] for n in range(kills - pod_kills)]
        chance.shuffle(kinds)
        return kinds

    def kill(self, kind: str, chance: random.Random) -> None:
        """Kill one of them, and start it again."""
        process: PodProcess | RedisServer | BatchesProcess | None
        process = chance.choice(self.pods) if kind == "pod" else None
        process = process or (self.redis if kind == "redis" else self.service)
        assert process is not None
        process.kill()
        process.start()

    def end(self) -> None:
        """Kill everything."""
        self.service.kill()
        for pod in self.pods:
            pod.kill()
        if self.redis is not None:
            self.redis.kill()

    def _service(self, **environment: str) -> BatchesProcess:
        return BatchesProcess(
            self._folder / "service", self._port, **(self._environment | environment)
        )


async def persistently(call: Callable[[], Awaitable[T]]) -> T:
    """Return what a call returns once the service is there and its store too."""
    for _ in range(600):
        try:
            return await call()
        except (openai.APIConnectionError, openai.InternalServerError):
            await asyncio.sleep(0.1)
    raise AssertionError("the service did not come back")


async def batch_when(
    client: openai.AsyncOpenAI, batch_id: str, statuses: tuple[str, ...], seconds: float
) -> Batch:
    """Return a batch once it has one of `statuses`."""
    batch: Batch | None = None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        batch = await persistently(lambda: client.batches.retrieve(batch_id))
        if batch.status in statuses:
            return batch
        await asyncio.sleep(0.1)
    raise AssertionError(batch)
