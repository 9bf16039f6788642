"""A pod whose engine process is frozen by SIGSTOP fails its requests, kills the engine and exits."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.runtime.test_generation_placements import generating
from tests.integration.runtime.test_placements import BODY, QUICK, gone, infer
from tests.support.runtime.process import engines
from tests.unit.runtime.protocols.openai.served import save_tiny_model

SOON = "3"
"""A short PENSTOCK_STUCK_SECONDS."""


async def frozen(pod: Any) -> int:
    """Stop the engine process of a ready pod; return its id."""
    (engine,) = engines(pod.process.pid)
    os.kill(engine, signal.SIGSTOP)
    return engine


async def probe(pod: Any, session: aiohttp.ClientSession) -> tuple[int, str]:
    async with session.get(f"{pod.cluster}/healthz") as reply:
        return reply.status, await reply.text()


async def reported(pod: Any, session: aiohttp.ClientSession, within_seconds: float) -> str:
    """Return the first failing answer of `/healthz`."""
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        status, text = await probe(pod, session)
        if status != 200:
            return text
        await asyncio.sleep(0.05)
    raise AssertionError(f"/healthz is still 200 after {within_seconds} s")


async def ended(pod: Any, engine: int) -> str:
    """Return the termination message of a pod that exits with 1 and leaves no process behind."""
    assert await asyncio.to_thread(pod.stopped) == 1
    await gone([engine])
    return str((pod.folder / "termination-log").read_text())


async def test_an_engine_frozen_without_requests_is_detected(launch: Any) -> None:
    pod = launch(QUICK, PENSTOCK_PLACEMENT="Process", PENSTOCK_STUCK_SECONDS=SOON)
    await asyncio.to_thread(pod.ready)
    engine = await frozen(pod)
    async with aiohttp.ClientSession() as session:
        assert "no sign of life" in await reported(pod, session, 6)
    assert (await ended(pod, engine)).startswith("EngineDied: it is stuck: no sign of life")


async def test_requests_that_wait_for_a_frozen_engine_get_503(launch: Any) -> None:
    pod = launch(QUICK, PENSTOCK_PLACEMENT="Process", PENSTOCK_STUCK_SECONDS=SOON)
    await asyncio.to_thread(pod.ready)
    async with aiohttp.ClientSession() as session:
        assert (await infer(pod, session))[0] == 200
        engine = await frozen(pod)
        waiting = [asyncio.create_task(infer(pod, session)) for _ in range(8)]
        await reported(pod, session, 6)
        for status, body in await asyncio.gather(*waiting):
            assert status == 503
            assert "stuck" in body["error"]
        assert (await infer(pod, session))[0] == 503
    await ended(pod, engine)


async def test_an_engine_frozen_in_a_step_is_detected(launch: Any) -> None:
    slow = {"a_milliseconds": "60", "c_milliseconds": "0"}
    pod = launch(slow, PENSTOCK_PLACEMENT="Process", PENSTOCK_STUCK_SECONDS=SOON)
    await asyncio.to_thread(pod.ready)
    async with aiohttp.ClientSession() as session:
        request = asyncio.create_task(infer(pod, session))
        await asyncio.sleep(0.03)
        engine = await frozen(pod)
        await reported(pod, session, 6)
        assert (await request)[0] in (200, 503)  # the step may have ended just before
    await ended(pod, engine)


async def test_a_generation_that_is_frozen_ends_its_stream(launch: Any, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    save_tiny_model(folder, positions=4096)  # the stream is far from its end when it freezes
    pod = generating(launch, folder, PENSTOCK_PLACEMENT="Process", PENSTOCK_STUCK_SECONDS=SOON)
    await asyncio.to_thread(pod.ready)
    body = {"prompt": "A gate", "max_tokens": 3600, "ignore_eos": True, "stream": True}
    lines: list[bytes] = []
    engine = 0
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{pod.client}/v1/completions", json=body) as reply,
    ):
        async for line in reply.content:
            if line.strip():
                lines.append(line.strip())
            if len(lines) == 3 and not engine:
                engine = await frozen(pod)
    assert lines[-1] == b"data: [DONE]"
    assert "stuck" in json.loads(lines[-2].removeprefix(b"data: "))["error"]["message"]
    await ended(pod, engine)


async def test_a_pod_that_was_suspended_as_a_whole_continues_to_serve(launch: Any) -> None:
    pod = launch(QUICK, PENSTOCK_PLACEMENT="Process", PENSTOCK_STUCK_SECONDS=SOON)
    await asyncio.to_thread(pod.ready)
    engine = await frozen(pod)
    pod.process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(8)
    pod.process.send_signal(signal.SIGCONT)
    await asyncio.sleep(1)
    os.kill(engine, signal.SIGCONT)
    async with aiohttp.ClientSession() as session:
        assert (await infer(pod, session))[0] == 200
        await asyncio.sleep(4)
        assert (await probe(pod, session))[0] == 200


@pytest.mark.long
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
async def test_a_frozen_engine_is_reported_within_35_seconds(launch: Any, busy: bool) -> None:
    pod = launch({"a_milliseconds": "300", "c_milliseconds": "0"}, PENSTOCK_PLACEMENT="Process")
    await asyncio.to_thread(pod.ready)
    url = f"{pod.client}/v2/models/demo/infer"
    async with aiohttp.ClientSession() as session:
        request = asyncio.create_task(session.post(url, json=BODY)) if busy else None
        await asyncio.sleep(0.1)
        began = time.monotonic()
        engine = await frozen(pod)
        await reported(pod, session, 40)
        assert time.monotonic() - began < 35
        if request is not None:
            assert (await request).status == 503
    await ended(pod, engine)
