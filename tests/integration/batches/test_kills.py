"""Real pods, a real store and the service as processes, killed at random moments: each `custom_id` is answered once."""

import asyncio
import random
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types import Batch

from tests.support.batches.process import BatchesProcess
from tests.support.batches.redis_server import RedisServer
from tests.support.batches.served import ENDED, jsonl, lines_of, request_line
from tests.support.runtime.process import RuntimeProcess, start
from tests.unit.runtime.protocols.openai.served import save_tiny_model

SOURCE = {
    "type": "PersistentVolumeClaim",
    "persistentVolumeClaim": {"claimName": "tiny", "path": "."},
}
MAX_TOKENS = 24


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Pool:
    """One pod that is started again where it was after a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._model = folder / "model"
        self._port = str(free_port())
        self.url = f"http://127.0.0.1:{self._port}"
        self.pod: RuntimeProcess | None = None
        save_tiny_model(self._model)

    def start(self) -> None:
        """Start the pod, without waiting."""
        self.pod = start(
            self._folder,
            model={"name": "demo", "task": "TextGeneration", "source": SOURCE},
            limits={"generation": 1, "maxBatchSize": 8, "maxQueueDepth": 16},
            PENSTOCK_MODEL_FOLDER=str(self._model),
            PENSTOCK_CACHE_BYTES=str(1 << 20),
            PENSTOCK_CLIENT_PORT=self._port,
        )

    def kill(self) -> None:
        """Kill the pod with SIGKILL."""
        if self.pod is not None:
            self.pod.kill()


class Stage:
    """The three processes, and what kills them."""

    def __init__(self, folder: Path, store: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.pool = Pool(folder)
        self.redis: RedisServer | None = None
        environment = {"PENSTOCK_POOLS": f"demo={self.pool.url}"}
        if store == "redis":
            (folder / "redis").mkdir()
            self.redis = RedisServer(folder / "redis")
            self.redis.start()
            environment |= {"PENSTOCK_STORE": "Redis", "PENSTOCK_REDIS_URL": self.redis.url}
        port = free_port()
        self.service = BatchesProcess(folder / "service", port, **environment)
        self.url = f"http://127.0.0.1:{port}/v1"
        self.pool.start()
        self.service.start()

    def ready(self) -> None:
        """Wait until everything serves."""
        assert self.pool.pod is not None
        self.pool.pod.ready()
        self.service.listening()

    def plan(self, kills: int, pod_kills: int, chance: random.Random) -> list[str]:
        """Return what to kill, in a random order."""
        others = ["service", "redis"] if self.redis else ["service"]
        kinds = ["pod"] * pod_kills + [others[n % len(others)] for n in range(kills - pod_kills)]
        chance.shuffle(kinds)
        return kinds

    def kill(self, kind: str) -> None:
        """Kill one of them, and start it again."""
        process: Any = {"pod": self.pool, "redis": self.redis, "service": self.service}[kind]
        process.kill()
        process.start()

    def end(self) -> None:
        """Kill everything."""
        self.service.kill()
        self.pool.kill()
        if self.redis is not None:
            self.redis.kill()


@pytest.fixture(params=["sqlite", "redis"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    opened = Stage(tmp_path / "stage", request.param)
    try:
        opened.ready()
        yield opened
    finally:
        opened.end()


async def persistently(call: Callable[[], Any]) -> Any:
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
        if batch is not None and batch.status in statuses:
            return batch
        await asyncio.sleep(0.1)
    raise AssertionError(batch)


async def answered_once(stage: Stage, lines: int, kills: int, pod_kills: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  moments, no secret
    asked = [f"line-{number}" for number in range(lines)]
    content = jsonl([request_line(each, max_tokens=MAX_TOKENS, ignore_eos=True) for each in asked])
    async with openai.AsyncOpenAI(base_url=stage.url, api_key="none", max_retries=0) as client:
        file = await client.files.create(file=("in.jsonl", content), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint="/v1/completions", completion_window="24h"
        )
        plan = stage.plan(kills, pod_kills, chance)
        for kind in plan:
            await asyncio.sleep(chance.uniform(0.1, 2.0))
            await asyncio.to_thread(stage.kill, kind)
        assert (await persistently(lambda: client.batches.retrieve(batch.id))).status not in ENDED
        batch = await batch_when(client, batch.id, ENDED, seconds=1800)
        assert batch.status == "completed"
        output = await lines_of(client, batch.output_file_id)
        errors = await lines_of(client, batch.error_file_id)
        assert [line["custom_id"] for line in output] == asked, errors[:3]
        assert batch.request_counts is not None
        assert batch.request_counts.to_dict() == {"total": lines, "completed": lines, "failed": 0}
        tokens = {line["response"]["body"]["usage"]["completion_tokens"] for line in output}
        assert tokens == {MAX_TOKENS}


async def test_each_custom_id_is_answered_once_whatever_is_killed(stage: Stage) -> None:
    await answered_once(stage, lines=1000, kills=7, pod_kills=1, seed=7)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_each_custom_id_is_answered_once_after_fifty_kills(stage: Stage) -> None:
    await answered_once(stage, lines=10_000, kills=50, pod_kills=4, seed=11)


async def test_the_service_ends_at_sigterm_and_goes_on_after_it(stage: Stage) -> None:
    async with openai.AsyncOpenAI(base_url=stage.url, api_key="none", max_retries=0) as client:
        content = jsonl([request_line(str(number), max_tokens=200) for number in range(100)])
        file = await client.files.create(file=("in.jsonl", content), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint="/v1/completions", completion_window="24h"
        )
        await batch_when(client, batch.id, ("in_progress",), seconds=60)
        assert await asyncio.to_thread(stage.service.stop) == 0
        stage.service.start()
        batch = await batch_when(client, batch.id, ENDED, seconds=200)
        output = await lines_of(client, batch.output_file_id)
        assert [line["custom_id"] for line in output] == [str(number) for number in range(100)]
