"""A text generation pool: chat through the Service, a live cap edit, a restart and a scale-down without dropped streams."""

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import openai
import pytest
import torch
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from tests.e2e.conftest import Figure
from tests.support.kube.api import Api, Object
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pods import metrics
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.volumes import node_volume
from tests.unit.runtime.protocols.handover.cases import GATE, TEXT, Call, answer_of
from tests.unit.runtime.protocols.openai.served import save_tiny_model

POSITIONS = 4096
LONG: Call = (TEXT, {**GATE, "model": "writer", "max_tokens": 3500, "temperature": 1.1})
"""A stream that outlasts a short drain."""
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is a pool?"}]


@pytest.fixture
def volume(api: Api, namespace: str) -> Iterator[Path]:
    """A folder on the node with a model, and a claim for it; in float64 the order of a sum changes no token."""
    folder = Path("/var/tmp") / f"penstock-{namespace}"  # noqa: S108 - a name of the test's own
    save_tiny_model(folder / "tiny", POSITIONS, torch.float64)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with node_volume(api, folder, namespace, "models", mode="ReadOnlyMany") as claim:
        api.create(claim)
        yield folder
    shutil.rmtree(folder)


@pytest.fixture
def writer(operator: InstalledOperator, api: Api, namespace: str, volume: Path) -> PoolHandle:
    """A pool with one CPU replica that serves the model on the claim."""
    pool = PoolHandle(api, namespace, "writer")
    source = {"claimName": "models", "path": "tiny"}
    spec: Object = {
        "model": {
            "task": "TextGeneration",
            "source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": source},
        },
        "accelerator": {"resourceName": "nvidia.com/gpu", "count": 0},
        "generation": {"computeBackend": "Torch"},
        "drain": {"deadlineSeconds": 40},
        "batching": {"mode": "Fixed", "size": {"max": 8}},
    }
    pool.apply(spec)
    pool.await_ready(1, seconds=240)
    return pool


@dataclass(slots=True)
class Streams:
    """Counts of ended streams, by the clients."""

    completed: int = 0
    faults: list[str] = field(default_factory=list)


@contextmanager
def streaming(pool: PoolHandle, clients: int) -> Iterator[Streams]:
    """Stream chats back to back from `clients` threads inside the context; then let them finish."""
    seen, leaving, lock = Streams(), threading.Event(), threading.Lock()

    def work() -> None:
        with openai.OpenAI(base_url=f"{pool.url()}/v1", api_key="none", timeout=60) as client:
            while not leaving.is_set():
                fault = stream_once(client)
                with lock:
                    if fault is None:
                        seen.completed += 1
                    else:
                        seen.faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        leaving.set()
        for thread in threads:
            thread.join(90)


def stream_once(client: openai.OpenAI) -> str | None:
    """Stream one chat; return its fault, or None."""
    reason = None
    try:
        stream: openai.Stream[ChatCompletionChunk] = client.chat.completions.create(
            model="writer",
            messages=HELLO,
            max_tokens=150,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        for chunk in stream:
            reason = chunk.choices[0].finish_reason or reason
    except openai.APIError as error:
        return repr(error)
    return None if reason == "length" else f"ended with {reason}"


def await_more(seen: Streams, more: int) -> None:
    """Wait until more streams complete."""
    wanted = seen.completed + more
    until("streams end", lambda: seen.completed >= wanted or str(seen.completed), seconds=60)


@pytest.mark.long
@pytest.mark.own_cluster
def test_a_live_cap_edit_and_a_restart_drop_no_stream(
    api: Api, writer: PoolHandle, figure: Figure
) -> None:
    with openai.OpenAI(base_url=f"{writer.url()}/v1", api_key="none") as client:
        assert [model.id for model in client.models.list()] == ["writer"]
        answer = client.chat.completions.create(
            model="writer",
            messages=HELLO,
            max_tokens=5,
            extra_body={"ignore_eos": True},
        )
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 5
    with streaming(writer, clients=6) as seen:
        await_more(seen, 6)
        assert_live_cap_edit(api, writer)
        await_more(seen, 4)
        restart(writer)
        await_more(seen, 4)
    assert seen.faults == []
    figure(f"{seen.completed} streams through a cap edit and a rolling restart, none dropped")


def assert_live_cap_edit(api: Api, pool: PoolHandle) -> None:
    """Lower the cap, and check that the running pods apply it."""
    names, before = pool.pod_names(), pool.status()["batch"]["generation"]
    pool.edit({"batching": {"size": {"max": 2}, "preemption": "TimeSlice"}})
    pool.await_acknowledged(before, seconds=15)
    assert pool.pod_names() == names
    samples = [metrics(api, pod) for pod in pool.pods()]
    assert [sample["penstock_batch_cap"] for sample in samples] == [2]


def restart(pool: PoolHandle) -> None:
    """Replace every pod by a change of the template."""
    old, began = pool.pod_names(), time.monotonic()
    pool.edit({"template": {"annotations": {"example.com/restarted": f"{began:.0f}"}}})

    def replaced() -> bool | str:
        names = pool.pod_names()
        return (not names & old and pool.status().get("readyReplicas") == 1) or str(names)

    until("the pod replaced", replaced, seconds=240)


@pytest.mark.long
@pytest.mark.own_cluster
async def test_streams_that_outlast_the_drain_of_their_pod_go_on_at_another(
    api: Api, writer: PoolHandle, figure: Figure
) -> None:
    writer.edit({"replicas": 2, "drain": {"deadlineSeconds": 7}})
    await asyncio.to_thread(writer.await_condition, "Progressing", "False", "Settled", seconds=240)
    await asyncio.to_thread(writer.await_ready, 2)
    await asyncio.to_thread(writer.await_none_terminating)
    expected = await long_streams(writer.url())
    before = writer.pod_names()
    streams = asyncio.create_task(long_streams(writer.url()))
    await asyncio.sleep(1)  # the streams have begun
    writer.edit({"replicas": 1})
    assert await streams == expected
    await asyncio.to_thread(writer.await_none_terminating)
    (left,) = writer.pods()
    assert writer.pod_names() < before
    taken_over = metrics(api, left)["penstock_handovers_total"]
    assert taken_over > 0
    figure(f"{taken_over:.0f} of {len(expected)} streams handed over at a scale-down, byte-equal")


async def long_streams(url: str) -> list[bytes]:
    """Return the answers of concurrent streams, each with a seed of its own."""
    path, body = LONG
    return await asyncio.gather(*(answer_of(url, (path, {**body, "seed": n})) for n in range(8)))


@pytest.mark.long
@pytest.mark.own_cluster
def test_the_law_follows_tokens_up_and_down_again(writer: PoolHandle, figure: Figure) -> None:
    """With 24 concurrent clients and a cap of 4, the law measures the cost of an answer and adds a second replica."""
    writer.edit({
        "objectives": [{"metric": "TimePerOutputToken", "milliseconds": 100}],
        "batching": {"mode": "Auto", "size": {"max": 4}},
        "scaling": {
            "mode": "Auto", "minReplicas": 1, "maxReplicas": 2,
            "scaleDown": {"stabilizationSeconds": 20, "maxPercentPerMinute": 100},
        },
    })  # fmt: skip
    with streaming(writer, clients=24) as seen:
        up = until(
            "a second replica", lambda: desired(writer) == 2 or scaling_status(writer), seconds=180
        )
        until("it serves", lambda: writer.status().get("readyReplicas") == 2, seconds=180)
        await_more(seen, 24)
        scaling = writer.status()["scaling"]
        assert float(scaling["curve"]["millisecondsPerRow"]) > 0
        assert float(scaling["rowsPerSecondPerReplica"]) > 0
    down = until(
        "one replica again", lambda: desired(writer) == 1 or scaling_status(writer), seconds=240
    )
    assert seen.faults == []
    each = scaling["rowsPerSecondPerReplica"]
    figure(
        f"two replicas requested after {up:.0f} s, one again {down:.0f} s after the load; {each} answers/s per replica; none of"
        f" {seen.completed} streams dropped"
    )


def desired(pool: PoolHandle) -> int:
    """Return the desired replicas."""
    return int(pool.status().get("desiredReplicas", 0))


def scaling_status(pool: PoolHandle) -> str:
    """Return the pool's scaling status, for the message of a timeout."""
    return str(pool.status().get("scaling", {}))
