"""A chat pool from the Hub: examples/pools/chat.yaml as it is, applied to answered, from a hub that this machine serves."""

import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import yaml

from tests.e2e.conftest import Figure
from tests.support.cluster.settings import NODE_ADDRESS
from tests.support.kube.api import Api, Object
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle
from tests.unit.api.crds import ROOT
from tests.unit.runtime.protocols.openai.served import save_tiny_model
from tests.unit.runtime.sources.hub import Hub, serving

pytestmark = pytest.mark.own_cluster
CHAT: Object = yaml.safe_load((ROOT / "examples/pools/chat.yaml").read_text(encoding="utf-8"))
REPOSITORY = CHAT["spec"]["model"]["source"]["huggingFace"]["repository"]
ANY_USER = 1_000_650_000
"""A user as OpenShift assigns them: without an entry in the passwd file, in the root group."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub at the node's address with an untrained model under the name of the example's."""
    save_tiny_model(tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with serving(Hub(files, repository=REPOSITORY, redirects=False), host=NODE_ADDRESS) as served:
        yield served


@pytest.fixture
def pool(operator: InstalledOperator, api: Api, namespace: str) -> PoolHandle:
    return PoolHandle(api, namespace, "chat")


def mirror(hub: Hub) -> Object:
    """Return the template with the one variable that a mirror of the Hub takes."""
    return {"container": {"env": [{"name": "HF_ENDPOINT", "value": hub.url}]}}


def answer(pool: PoolHandle) -> str:
    """Return the finish reason of a short chat."""
    with openai.OpenAI(base_url=f"{pool.url()}/v1", api_key="none", timeout=60) as client:
        chat = client.chat.completions.create(
            model="chat",
            messages=[{"role": "user", "content": "What is a pool?"}],
            max_tokens=5,
            extra_body={"ignore_eos": True},
        )
    return str(chat.choices[0].finish_reason)


def test_six_lines_of_spec_are_a_chat_model_that_answers(
    pool: PoolHandle, hub: Hub, figure: Figure
) -> None:
    applied = time.monotonic()
    pool.apply({**CHAT["spec"], "template": mirror(hub)})
    ready = pool.await_ready(1, seconds=240)
    assert answer(pool) == "length"
    answered = time.monotonic() - applied
    assert {path for path, _, _ in hub.sent} >= {"config.json", "model.safetensors"}
    size = sum(map(len, hub.files.values())) / 2**20
    figure(
        f"six-line chat pool from the Hub ({size:.1f} MiB): Ready after {ready:.1f} s,"
        f" answered {answered:.1f} s after kubectl apply"
    )


def test_the_images_run_as_any_user_in_the_root_group(pool: PoolHandle, hub: Hub) -> None:
    ids = {"runAsUser": ANY_USER, "runAsGroup": 0, "fsGroup": ANY_USER}
    template = {**mirror(hub), "securityContext": ids}
    pool.apply({**CHAT["spec"], "accelerator": {"count": 0}, "template": template})
    pool.await_ready(1, seconds=240)
    (pod,) = pool.pods()
    assert pod["spec"]["securityContext"].items() >= ids.items()
    assert answer(pool) == "length"
    platform = {**dict.fromkeys(ids), "ids": "Platform"}  # null removes a field
    pool.edit({"template": {"securityContext": platform}})
    pool.await_condition("Progressing", "False", "Settled", seconds=240)
    pool.await_ready(1, seconds=240)
    (pod,) = pool.pods()
    assert pod["spec"]["securityContext"].keys() & ids.keys() == set()
    assert answer(pool) == "length"
