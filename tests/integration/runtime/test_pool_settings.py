"""Typed settings of a pool, from its spec by the operator's template to the behavior of the real runtime."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from penstock_api import names
from tests.support.encoders.directories import write
from tests.unit.operator.decide.world import World, pool
from tests.unit.runtime.protocols.openai.served import save_tiny_model
from tests.unit.runtime.sources.hub import Hub, serving


def variables(**spec: Any) -> dict[str, str]:
    """Return the literal variables of the runtime in the template that the operator renders for a pool."""
    world = World(pool=pool(**spec))
    world.settle()
    (container,) = world.template["spec"]["containers"]
    return {
        entry["name"]: entry["value"]
        for entry in container["env"]
        if entry["name"].startswith("PENSTOCK_") and "value" in entry
    }


def from_hub(task: str, **more: Any) -> dict[str, Any]:
    source = {"type": "HuggingFace", "huggingFace": {"repository": "owner/tiny"}}
    return {"task": task, "source": source, **more}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with serving(Hub({})) as served:
        yield served


def launched(launch: Any, tmp_path: Path, hub: Hub, files: Path, **spec: Any) -> Any:
    """Start the pool's runtime; it downloads the `files` from the hub."""
    hub.files = {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()}
    for name in ("cache", "home"):
        (tmp_path / name).mkdir()
    return launch(
        **variables(**spec),
        PENSTOCK_MODEL_FOLDER=str(tmp_path / "cache"),
        PENSTOCK_FETCHED_FOLDER=str(tmp_path / "scratch" / "model"),
        HOME=str(tmp_path / "home"),
        HF_ENDPOINT=hub.url,
    )


async def test_the_settings_of_a_chat_pool_take_effect(
    launch: Any, tmp_path: Path, hub: Hub
) -> None:
    save_tiny_model(tmp_path / "model")
    pod = launched(
        launch,
        tmp_path,
        hub,
        tmp_path / "model",
        model=from_hub("TextGeneration", dtype="BFloat16"),
        generation={
            "contextLength": 128,
            "kvCache": {"size": "1Mi"},
            "maxSequences": 3,
            "computeBackend": "Torch",
        },
        runtime={
            "log": {"access": "Enabled"},
            "http": {"maxBodySize": "4Ki", "metrics": "Disabled"},
        },
    )
    await asyncio.to_thread(pod.ready)
    async with aiohttp.ClientSession(pod.client) as session:
        async with session.get("/v1/models") as reply:
            (card,) = (await reply.json())["data"]
            assert card["max_model_len"] == 128
        body = {"messages": [{"role": "user", "content": "What is a pool?"}], "max_tokens": 3}
        async with session.post("/v1/chat/completions", json=body) as reply:
            assert (await reply.json())["usage"]["completion_tokens"] >= 1
        async with session.post("/v1/chat/completions", data=b" " * 5000) as reply:
            assert reply.status == 413
        async with session.get("/metrics") as reply:
            assert reply.status == 404
    state = json.loads(pod.get(names.PATH_STATE)[1])
    assert (state["dtype"], state["effectiveMax"]) == ("bfloat16", 3)
    assert "/v1/chat/completions" in pod.log.read_text(), "the access log"


async def test_an_encoder_computes_in_the_type_of_the_spec(
    launch: Any, tmp_path: Path, hub: Hub
) -> None:
    vectors = []
    write(tmp_path / "model")
    for number, dtype in enumerate(("Auto", "BFloat16")):
        folder = tmp_path / f"pod-{number}"
        folder.mkdir()
        spec = from_hub("Embedding", dtype=dtype)
        pod = launched(launch, folder, hub, tmp_path / "model", model=spec)
        await asyncio.to_thread(pod.ready)
        async with (
            aiohttp.ClientSession(pod.client) as session,
            session.post("/v1/embeddings", json={"input": "w1 w2"}) as reply,
        ):
            vectors.append((await reply.json())["data"][0]["embedding"])
    exact, rounded = vectors
    assert rounded != exact
    assert rounded == pytest.approx(exact, abs=0.05)
