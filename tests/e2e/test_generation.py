"""A pool that generates text: chat through the Service, a cap edited while streams run, a restart that drops none."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from tests.e2e.conftest import Figure
from tests.support.kube.api import Api, Object
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pods import metrics
from tests.support.kube.pools import PoolHandle, until
from tests.unit.runtime.protocols.openai.served import save_tiny_model

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is a pool?"}]


@pytest.fixture
def volume(api: Api, namespace: str) -> Iterator[Path]:
    """A folder of the node with a model in it, and the claim that binds it."""
    folder = Path("/var/tmp") / f"penstock-{namespace}"  # noqa: S108 - a name of the test's own
    save_tiny_model(folder / "tiny")
    for one in (folder, *folder.rglob("*")):
        one.chmod(0o755 if one.is_dir() else 0o644)
    claim = {"namespace": namespace, "name": "models"}
    name = f"models-{namespace}"
    api.create({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany"], "claimRef": claim,
            "hostPath": {"path": str(folder)}, "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
        },
    })  # fmt: skip
    api.create({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim,
        "spec": {
            "accessModes": ["ReadOnlyMany"], "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })  # fmt: skip
    yield folder
    api.delete(f"/api/v1/persistentvolumes/{name}")
    shutil.rmtree(folder)


@pytest.fixture
def writer(operator: InstalledOperator, api: Api, namespace: str, volume: Path) -> PoolHandle:
    """One replica on the CPU, of a model on the claim."""
    pool = PoolHandle(api, namespace, "writer")
    source = {"claimName": "models", "path": "tiny"}
    spec: Object = {
        "model": {
            "task": "TextGeneration",
            "source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": source},
        },
        "accelerator": {"resourceName": "nvidia.com/gpu", "count": 0},
        "drain": {"deadlineSeconds": 40},
        "batching": {"mode": "Fixed", "size": {"max": 8}},
    }
    pool.apply(spec)
    pool.await_ready(1, seconds=240)
    return pool


@dataclass(slots=True)
class Streams:
    """How streams ended, by the clients' own word."""

    whole: int = 0
    faults: list[str] = field(default_factory=list)


@contextmanager
def streaming(pool: PoolHandle, clients: int) -> Iterator[Streams]:
    """Stream chats from `clients` threads, one after the other, until the block is left; then let them finish."""
    seen, leaving, lock = Streams(), threading.Event(), threading.Lock()

    def work() -> None:
        with openai.OpenAI(base_url=f"{pool.url()}/v1", api_key="none", timeout=60) as client:
            while not leaving.is_set():
                fault = stream_once(client)
                with lock:
                    if fault is None:
                        seen.whole += 1
                    else:
                        seen.faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for one in threads:
        one.start()
    try:
        yield seen
    finally:
        leaving.set()
        for one in threads:
            one.join(90)


def stream_once(client: openai.OpenAI) -> str | None:
    """Stream one chat; return what was wrong with it."""
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
    """Wait for more streams to end well."""
    wanted = seen.whole + more
    until("streams end", lambda: seen.whole >= wanted or str(seen.whole), seconds=60)


@pytest.mark.long
@pytest.mark.own_cluster
def test_a_pool_chats_takes_a_cap_while_streams_run_and_restarts_without_dropping_one(
    api: Api, writer: PoolHandle, figure: Figure
) -> None:
    with openai.OpenAI(base_url=f"{writer.url()}/v1", api_key="none") as client:
        assert [one.id for one in client.models.list()] == ["writer"]
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
        cap_is_taken_live(api, writer)
        await_more(seen, 4)
        restart(writer)
        await_more(seen, 4)
    assert seen.faults == []
    figure(f"{seen.whole} streams through a cap edit and a rolling restart, none dropped")


def cap_is_taken_live(api: Api, pool: PoolHandle) -> None:
    """Lower the cap, and see it obeyed by the pods that run."""
    names, before = pool.pod_names(), pool.status()["batch"]["generation"]
    pool.edit({"batching": {"size": {"max": 2}, "preemption": "TimeSlice"}})
    pool.await_acknowledged(before, seconds=15)
    assert pool.pod_names() == names
    told = [metrics(api, pod) for pod in pool.pods()]
    assert [one["penstock_batch_cap"] for one in told] == [2]


def restart(pool: PoolHandle) -> None:
    """Replace every pod, by a change of the template."""
    old, began = pool.pod_names(), time.monotonic()
    pool.edit({"template": {"annotations": {"example.com/restarted": f"{began:.0f}"}}})

    def replaced() -> bool | str:
        names = pool.pod_names()
        return (not names & old and pool.status().get("readyReplicas") == 1) or str(names)

    until("the pod replaced", replaced, seconds=240)


@pytest.mark.long
@pytest.mark.own_cluster
def test_the_law_follows_tokens_up_and_down_again(writer: PoolHandle, figure: Figure) -> None:
    """24 clients stream at once where four may run: the law learns what an answer takes, and asks for a second replica."""
    writer.edit({
        "objectives": [{"metric": "TimePerOutputToken", "milliseconds": 100}],
        "batching": {"mode": "Auto", "size": {"max": 4}},
        "scaling": {
            "mode": "Auto", "minReplicas": 1, "maxReplicas": 2,
            "scaleDown": {"stabilizationSeconds": 20, "maxPercentPerMinute": 100},
        },
    })  # fmt: skip
    with streaming(writer, clients=24) as seen:
        up = until("a second replica", lambda: desired(writer) == 2 or told(writer), seconds=180)
        until("it serves", lambda: writer.status().get("readyReplicas") == 2, seconds=180)
        await_more(seen, 24)
        scaling = writer.status()["scaling"]
        assert float(scaling["curve"]["millisecondsPerRow"]) > 0
        assert float(scaling["rowsPerSecondPerReplica"]) > 0
    down = until("one replica again", lambda: desired(writer) == 1 or told(writer), seconds=240)
    assert seen.faults == []
    each = scaling["rowsPerSecondPerReplica"]
    figure(
        f"two replicas wanted after {up:.0f} s, one again {down:.0f} s after the load; {each} answers/s a replica; none of"
        f" {seen.whole} streams dropped"
    )


def desired(pool: PoolHandle) -> int:
    """Return the replicas that the law wants."""
    return int(pool.status().get("desiredReplicas", 0))


def told(pool: PoolHandle) -> str:
    """Return why it does not want others."""
    return str(pool.status().get("scaling", {}))
