"""A namespace's batch service by the chart: a file whose lines are answered once while a pod dies."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import openai
import pytest

from tests.e2e.conftest import Figure
from tests.support.batches.served import ENDED, jsonl, request_line
from tests.support.cluster.host import kernel
from tests.support.kube.api import Api, Object
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.volumes import node_volume
from tests.unit.runtime.protocols.openai.served import save_tiny_model

pytestmark = [pytest.mark.own_cluster, pytest.mark.alone]
LINES = 48
MAX_TOKENS = 400
SERVICE = "penstock-batches"
POOL: Object = {
    "replicas": 2,
    "model": {
        "task": "TextGeneration",
        "source": {
            "type": "PersistentVolumeClaim",
            "persistentVolumeClaim": {"claimName": "models", "path": "tiny"},
        },
    },
    "accelerator": {"resourceName": "nvidia.com/gpu", "count": 0},
    "batching": {"mode": "Fixed", "size": {"max": 8}},
}


@pytest.fixture
def folder(api: Api, namespace: str) -> Iterator[Path]:
    """A folder on the node with a model for the pool's claim, and room for the batch service's."""
    root = Path("/var/tmp") / f"penstock-{namespace}"  # noqa: S108  a name of the test's own
    save_tiny_model(root / "models" / "tiny")
    (root / "service").mkdir()
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o644)
    with ExitStack() as stack:
        volume = node_volume(api, root / "models", namespace, "models", mode="ReadOnlyMany")
        api.create(stack.enter_context(volume))
        stack.enter_context(
            node_volume(
                api, root / "service", namespace, SERVICE, mode="ReadWriteOnce", size="20Gi"
            )
        )
        yield root
    shutil.rmtree(root)


@pytest.fixture
def pool(operator: InstalledOperator, api: Api, namespace: str, folder: Path) -> PoolHandle:
    """A pool that generates text, whose two pods are starting."""
    pool = PoolHandle(api, namespace, "demo")
    pool.apply(POOL)
    return pool


@pytest.fixture
def client(
    operator: InstalledOperator, api: Api, namespace: str, folder: Path
) -> Iterator[openai.OpenAI]:
    """OpenAI's client of the batch service that the chart gives to the namespace."""
    operator.change("batches.enabled=true", f"batches.namespaces={{{namespace}}}")
    service = api.request("GET", f"/api/v1/namespaces/{namespace}/services/{SERVICE}")
    url = f"http://{service['spec']['clusterIP']}:8000/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=20) as opened:
        yield opened
    operator.change("batches.enabled=false", "batches.namespaces=null")


def kill_a_pod(pool: PoolHandle) -> None:
    """Kill the processes of one pod with SIGKILL."""
    pids = kernel.pod_processes(pool.pods()[0]["metadata"]["uid"])
    assert pids, "the pod has no process on this machine"
    for pid in pids:
        kernel.kill(pid)


def is_answering(client: openai.OpenAI, batch_id: str) -> bool | str:
    """Return whether a batch has answers, or what it is while it has none."""
    batch = client.batches.retrieve(batch_id)
    counts = batch.request_counts
    return (counts is not None and counts.completed > 0) or str(batch.to_dict())


def test_each_line_of_a_file_is_answered_once_while_a_pod_is_killed(
    pool: PoolHandle, client: openai.OpenAI, figure: Figure
) -> None:
    pool.await_ready(2, seconds=240)
    asked = [f"line-{number}" for number in range(LINES)]
    content = jsonl([request_line(each, max_tokens=MAX_TOKENS, ignore_eos=True) for each in asked])
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id, endpoint="/v1/completions", completion_window="24h"
    )
    until("lines are answered", lambda: is_answering(client, batch.id), seconds=60)
    kill_a_pod(pool)
    assert client.batches.retrieve(batch.id).status == "in_progress", "the kill came too late"
    until("it ended", lambda: client.batches.retrieve(batch.id).status in ENDED, seconds=120)
    batch = client.batches.retrieve(batch.id)
    assert (batch.status, batch.error_file_id) == ("completed", None)
    assert batch.output_file_id is not None
    lines = client.files.content(batch.output_file_id).text.splitlines()
    assert [json.loads(line)["custom_id"] for line in lines] == asked
    figure(f"batches: a pod killed with SIGKILL: {LINES} of {LINES} lines answered once")
