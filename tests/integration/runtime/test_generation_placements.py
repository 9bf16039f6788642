"""A generating pod behaves the same with its engine in a thread and in its own process."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.runtime.test_every_generation_ends import SOURCE
from tests.integration.runtime.test_placements import alive
from tests.support.runtime.process import children, engines
from tests.unit.runtime.protocols.openai.served import save_tiny_model

SCHEMA = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model_folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(model_folder)
    return model_folder


def generating(launch: Any, folder: Path, *, dtype: str = "float32", **more: str) -> Any:
    """Start a pod that generates text; it listens, and may be loading still."""
    pod = launch(
        model={"name": "tiny", "task": "TextGeneration", "source": SOURCE},
        PENSTOCK_MODEL_FOLDER=str(folder),
        PENSTOCK_CACHE_BYTES=str(1 << 20),
        PENSTOCK_COMPUTE_BACKEND="Torch",  # two loads may select two backends
        PENSTOCK_DTYPE=dtype,
        **more,
    )
    pod.listening()
    return pod


async def complete(pod: Any, session: aiohttp.ClientSession, **more: Any) -> Any:
    body = {"prompt": "A gate", "temperature": 0, "max_tokens": 12, **more}
    async with session.post(f"{pod.client}/v1/completions", json=body) as reply:
        assert reply.status == 200, await reply.text()
        return await reply.json()


@pytest.mark.parametrize("depth", [pytest.param("0", marks=pytest.mark.long), "1"])
async def test_both_placements_give_the_same_answers_and_leave_no_process(
    launch: Any, folder: Path, depth: str
) -> None:
    choices = []
    for placement, processes in (("Thread", 0), ("Process", 1)):
        pod = generating(
            launch, folder, PENSTOCK_PLACEMENT=placement, PENSTOCK_OVERLAP_SCHEDULING=depth
        )
        await asyncio.to_thread(pod.ready)
        assert len(engines(pod.process.pid)) == processes
        started = children(pod.process.pid)
        async with aiohttp.ClientSession() as session:
            plain = [complete(pod, session, seed=n, temperature=1) for n in range(8)]
            shaped = complete(pod, session, max_tokens=40, structured_outputs={"json": SCHEMA})
            answers = await asyncio.gather(*plain, shaped)
        choices.append([answer["choices"] for answer in answers])
        assert pod.metric('penstock_requests_total{outcome="Completed",work="interactive"}') == 9
        pod.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(pod.stopped) == 0
        assert not any(alive(process) for process in started)
    assert choices[0] == choices[1]
    assert choices[0][-1][0]["text"].strip().startswith("{")


async def test_killing_the_engine_process_ends_every_stream_and_the_pod(
    launch: Any, folder: Path
) -> None:
    pod = generating(launch, folder, PENSTOCK_PLACEMENT="Process")
    await asyncio.to_thread(pod.ready)
    (engine,) = engines(pod.process.pid)
    body = {"prompt": "A gate", "max_tokens": 900, "ignore_eos": True, "stream": True}
    lines: list[bytes] = []
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{pod.client}/v1/completions", json=body) as reply,
    ):
        async for line in reply.content:
            if line.strip():
                lines.append(line.strip())
            if len(lines) == 3:
                os.kill(engine, signal.SIGKILL)
    assert lines[-1] == b"data: [DONE]"
    assert b'"error"' in lines[-2]
    assert await asyncio.to_thread(pod.stopped) == 1
    message = (pod.folder / "termination-log").read_text()
    assert message == "EngineDied: its process was killed by SIGKILL (out of memory?)"


async def test_a_folder_without_a_model_is_reported_from_the_engine_process(
    launch: Any, tmp_path: Path, folder: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    pod = generating(launch, empty, PENSTOCK_PLACEMENT="Process")
    assert await asyncio.to_thread(pod.stopped) == 1
    assert "config.json" in (pod.folder / "termination-log").read_text()
