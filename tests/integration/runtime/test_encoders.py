"""A pod serves a text encoder from a directory, with the engine in its own process and texts over HTTP."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.encoders.directories import write


def spec(task: str) -> str:
    claim = {"claimName": "models", "path": "encoder"}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    return json.dumps({"name": "texts", "task": task, "source": source})


async def test_a_hundred_texts_of_mixed_length_each_get_their_own_answer(
    launch: Any, tmp_path: Path
) -> None:
    write(tmp_path / "models" / "encoder")
    folder = str(tmp_path / "models")
    pod = launch(
        PENSTOCK_MODEL=spec("Embedding"),
        PENSTOCK_MODEL_FOLDER=folder,
        PENSTOCK_PLACEMENT="Process",
    )
    await asyncio.to_thread(pod.ready)
    texts = [" ".join(f"w{n}" for n in range(1 + at % 60)) for at in range(100)]
    async with aiohttp.ClientSession() as session:

        async def embed(given: Any) -> Any:
            async with session.post(f"{pod.client}/v1/embeddings", json={"input": given}) as reply:
                assert reply.status == 200, await reply.text()
                return (await reply.json())["data"]

        alone = await asyncio.gather(*(embed(text) for text in texts))
        together = await embed(texts)
    for (single,), other in zip(alone, together, strict=True):
        assert single["embedding"] == pytest.approx(other["embedding"], abs=1e-5)
    assert pod.metric("penstock_rows_received_total") == 200


def test_a_missing_directory_is_reported_in_the_termination_message(
    launch: Any, tmp_path: Path
) -> None:
    pod = launch(PENSTOCK_MODEL=spec("Classification"), PENSTOCK_MODEL_FOLDER=str(tmp_path))
    assert pod.stopped() == 1
    message = (pod.folder / "termination-log").read_text()
    assert message.startswith("ModelLoadFailed: there is no directory '")
    assert "the path in spec.model.source" in message
