"""The same pod with its engine in a thread and in a process of its own."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

BODY = {"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 8], "data": [1] * 8}]}
QUICK = {"a_milliseconds": "2", "c_milliseconds": "0"}


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(one) for file in found for one in file.read_text().split()]


def engines(pid: int) -> list[int]:
    """Return those that hold an engine: no fork server of grammars is among them."""
    return [
        one
        for one in children(pid)
        if b"penstock_runtime.engine.link." in Path(f"/proc/{one}/cmdline").read_bytes()
    ]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def ask(pod: Any, session: aiohttp.ClientSession) -> tuple[int, Any]:
    async with session.post(f"{pod.client}/v2/models/demo/infer", json=BODY) as reply:
        return reply.status, await reply.json()


@pytest.mark.parametrize(("placement", "processes"), [("Thread", 0), ("Process", 1)])
async def test_either_placement_answers_and_leaves_nothing_behind(
    launch: Any, placement: str, processes: int
) -> None:
    pod = launch(QUICK, PENSTOCK_PLACEMENT=placement)
    await asyncio.to_thread(pod.ready)
    engines = children(pod.process.pid)
    assert len(engines) == processes
    async with aiohttp.ClientSession() as session:
        answers = await asyncio.gather(*(ask(pod, session) for _ in range(50)))
    assert {status for status, _ in answers} == {200}
    assert answers[0][1]["outputs"][0]["data"] == [3.0] * 8
    assert pod.metric('penstock_requests_total{outcome="Completed"}') == 50
    pod.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(pod.stopped, 20) == 0
    assert not any(alive(one) for one in engines)


async def test_an_engines_process_that_is_killed_ends_the_pod_and_says_so(launch: Any) -> None:
    pod = launch(QUICK, PENSTOCK_PLACEMENT="Process")
    await asyncio.to_thread(pod.ready)
    (engine,) = children(pod.process.pid)
    os.kill(engine, signal.SIGKILL)
    assert await asyncio.to_thread(pod.stopped, 10) == 1
    last_words = (pod.folder / "termination-log").read_text()
    assert last_words == "EngineDied: its process was killed by SIGKILL (out of memory?)"


async def test_a_pod_that_is_killed_takes_its_engine_with_it(launch: Any) -> None:
    pod = launch(QUICK, PENSTOCK_PLACEMENT="Process")
    await asyncio.to_thread(pod.ready)
    (engine,) = children(pod.process.pid)
    pod.kill()
    deadline = time.monotonic() + 10
    while alive(engine):
        assert time.monotonic() < deadline, "the engine has outlived its pod"
        await asyncio.sleep(0.02)


async def test_a_model_that_does_not_load_in_a_process_is_told_by_name(launch: Any) -> None:
    pod = launch(factory="no.such.module:create", PENSTOCK_PLACEMENT="Process")
    assert await asyncio.to_thread(pod.stopped, 60) == 1
    assert "no.such.module" in (pod.folder / "termination-log").read_text()
