"""Fixtures: a pod on loopback with real servers, a real engine in a thread, and a small model that tests can block."""

import asyncio
import gc
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from penstock_api.pod_contract import Discipline, LimitsUpdate
from penstock_api.types.model import ModelSpec
from penstock_runtime.config import FilesConfig, HttpConfig, PodConfig, RuntimeConfig
from penstock_runtime.engine.link.batch import batch_thread_link
from penstock_runtime.engine.model import ModelInfo, TensorSpec
from penstock_runtime.http.fast_path import connection
from penstock_runtime.http.server import ClientServer, ClusterServer
from penstock_runtime.request import Tensor
from penstock_runtime.serving.batch.client import BatchPod, batch_pod
from penstock_runtime.telemetry.gpu import DutyMeter
from penstock_runtime.telemetry.metrics import Exposition
from tests.unit.runtime.settings import with_settings

LIMITS = LimitsUpdate(
    generation=1,
    max_batch_size=8,
    max_queue_depth=64,
    max_queue_delay_milliseconds=0,
    discipline=Discipline.FIRST_IN_FIRST_OUT,
)


class Halves:
    """`Y = X / 2`, `N` = the sum of `K`; rows of 666 make it raise. `gate` holds a batch while it is closed."""

    info = ModelInfo(
        name="halves",
        platform="pytorch_module",
        backend="cpu",
        inputs=(TensorSpec("X", "FP32", (-1, 3)), TensorSpec("K", "INT64", (-1, -1))),
        outputs=(TensorSpec("Y", "FP32", (-1, 3)), TensorSpec("N", "INT64", (-1, 1))),
        max_rows=256,
    )

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[int] = []

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return both outputs once the gate is open."""
        assert self.gate.wait(30)
        x, k = inputs["X"].astype(np.float32), inputs["K"].astype(np.int64)
        self.batches.append(len(x))
        if bool((x == 666).any()):
            raise ValueError("666 cannot be halved")
        return {"Y": x / np.float32(2), "N": k.sum(axis=1, keepdims=True)}

    def memory_bound_rows(self) -> int:
        """Return a bound above the limits of the tests."""
        return 128


class Clock:
    """The clock of a pod: the machine's until a test stops it, then moved by the test."""

    def __init__(self) -> None:
        self._stands_at: float | None = None

    def __call__(self) -> float:
        return time.monotonic() if self._stands_at is None else self._stands_at

    def stop(self) -> None:
        """Stop the clock; only `move` advances it."""
        self._stands_at = self()

    def move(self, seconds: float) -> None:
        """Advance a stopped clock."""
        assert self._stands_at is not None
        self._stands_at += seconds


@dataclass(slots=True)
class Running:
    """A serving pod, with a client session and its URLs."""

    pod: BatchPod
    model: Halves
    client: ClientServer
    session: aiohttp.ClientSession
    url: str
    """The URL of the client port."""
    cluster_url: str
    clock: Clock

    async def infer(self, body: object, **more: object) -> aiohttp.ClientResponse:
        """POST one inference."""
        return await self.session.post(f"{self.url}/v2/models/halves/infer", json=body, **more)  # type: ignore[arg-type]


def call(rows: int = 1, value: float = 2.0, **more: object) -> dict[str, object]:
    """Return a valid call in JSON."""
    return {
        "inputs": [
            {"name": "X", "datatype": "FP32", "shape": [rows, 3], "data": [value] * 3 * rows},
            {"name": "K", "datatype": "INT64", "shape": [rows, 2], "data": [1] * 2 * rows},
        ],
        **more,
    }


@pytest.fixture(name="call")
def call_fixture() -> Callable[..., dict[str, object]]:
    return call


def config(folder: Path, **more: object) -> RuntimeConfig:
    """Return a configuration for tests."""
    spec = ModelSpec.model_validate(
        {"name": "halves", "source": {"type": "Module", "module": {"factory": "tests:Halves"}}}
    )
    plain = RuntimeConfig(
        model=spec,
        pod=PodConfig(pool="pool", name="pool-0", uid="uid-0"),
        files=FilesConfig(settings_folder=folder, termination_log=folder / "termination-log"),
        http=HttpConfig(
            host="127.0.0.1",
            client_port=0,
            cluster_port=0,
            max_body_bytes=2**20,
            body_timeout_seconds=5.0,
        ),
    )
    return with_settings(plain, **more)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain request whose bytes a busy machine delays is not handed over to aiohttp."""
    monkeypatch.setattr(connection, "COLLECT_SECONDS", 60.0)


Start = Callable[..., Awaitable[Running]]


@pytest.fixture
def fast_path() -> bool:
    """Whether plain requests take the fast path; modules that test both paths parametrize it."""
    return True


@pytest.fixture
async def start(tmp_path: Path, fast_path: bool) -> AsyncIterator[Start]:
    """Start a pod with changed settings or limits; stopped at the end of the test."""
    running: list[tuple[Running, ClusterServer]] = []

    async def begin(
        limits: LimitsUpdate = LIMITS,
        tls: ssl.SSLContext | None = None,
        model: Halves | None = None,
        **settings: object,
    ) -> Running:
        model, clock = model or Halves(), Clock()
        settings = {"fast_path": fast_path, **settings}
        pod = batch_pod(
            config(tmp_path, **settings),
            batch_thread_link(lambda: model, limits, clock),
            limits,
            clock,
        )
        exposition = Exposition(pod)
        client = ClientServer(pod, exposition, tls)
        cluster = ClusterServer(pod, exposition, tls)
        ports = await client.start(), await cluster.start()
        await pod.load()
        exposition.collector.meter = DutyMeter(pod.busy_seconds, pod.now)
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        urls = [f"http{'s' * bool(tls)}://127.0.0.1:{port}" for port in ports]
        running_pod = Running(pod, model, client, session, urls[0], urls[1], clock)
        running.append((running_pod, cluster))
        return running_pod

    yield begin
    for begun, cluster in running:
        begun.model.gate.set()
        await begun.session.close()
        await begun.client.stop()
        await cluster.stop()
        await begun.pod.link.close()


@pytest.fixture
async def pod(start: Start) -> Running:
    """A pod with the settings of most tests."""
    return await start()


async def until(holds: Callable[[], bool], within_seconds: float = 60.0) -> None:
    """Wait until `holds`; the test fails if it never does."""
    async with asyncio.timeout(within_seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for is another thread's
            await asyncio.sleep(0.005)


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., Awaitable[None]]:
    return until


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage collection, which a pod defers for long: what a cycle of references keeps stays in memory."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
