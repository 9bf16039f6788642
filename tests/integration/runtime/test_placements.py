"""A pod behaves the same with its engine in a thread and in its own process."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.runtime.process import START_SECONDS, children

BODY = {"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 8], "data": [1] * 8}]}
QUICK = {"a_milliseconds": "2", "c_milliseconds": "0"}


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def gone(processes: list[int]) -> None:
    """Wait until the processes of a pod that has exited are gone."""
    async with asyncio.timeout(START_SECONDS):
        while any(alive(process) for process in processes):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)


async def infer(pod: Any, session: aiohttp.ClientSession) -> tuple[int, Any]:
    async with session.post(f"{pod.client}/v2/models/demo/infer", json=BODY) as reply:
        return reply.status, await reply.json()


@pytest.mark.parametrize(("placement", "processes"), [("Thread", 0), ("Process", 1)])
async def test_either_placement_answers_and_leaves_no_process(
    launch: Any, placement: str, processes: int
) -> None:
    pod = launch(QUICK, PENSTOCK_PLACEMENT=placement)
    await asyncio.to_thread(pod.ready)
    engines = children(pod.process.pid)
    assert len(engines) == processes
    async with aiohttp.ClientSession() as session:
        answers = await asyncio.gather(*(infer(pod, session) for _ in range(50)))
    assert {status for status, _ in answers} == {200}
    assert answers[0][1]["outputs"][0]["data"] == [3.0] * 8
    assert pod.metric('penstock_requests_total{outcome="Completed",work="interactive"}') == 50
    pod.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(pod.stopped) == 0
    assert not any(alive(engine) for engine in engines)


async def test_killing_the_engine_process_ends_the_pod_with_a_message(launch: Any) -> None:
    pod = launch(QUICK, PENSTOCK_PLACEMENT="Process")
    await asyncio.to_thread(pod.ready)
    (engine,) = children(pod.process.pid)
    os.kill(engine, signal.SIGKILL)
    assert await asyncio.to_thread(pod.stopped) == 1
    message = (pod.folder / "termination-log").read_text()
    assert message == "EngineDied: its process was killed by SIGKILL (out of memory?)"


async def test_a_pod_that_is_killed_takes_its_engine_with_it(launch: Any) -> None:
    pod = launch(QUICK, PENSTOCK_PLACEMENT="Process")
    await asyncio.to_thread(pod.ready)
    (engine,) = children(pod.process.pid)
    pod.kill()
    await gone([engine])


LINGERING = """
import threading, time

def create():
    threading.Thread(target=time.sleep, args=(300,)).start()
    raise RuntimeError("no weights")
"""


async def test_a_thread_of_a_model_that_does_not_load_keeps_no_pod(
    launch: Any, tmp_path: Path
) -> None:
    (tmp_path / "lingering.py").write_text(LINGERING)
    pod = launch(factory="lingering:create", PENSTOCK_PLACEMENT="Process", PYTHONPATH=str(tmp_path))
    assert await asyncio.to_thread(pod.stopped) == 1
    assert "no weights" in (pod.folder / "termination-log").read_text()


async def test_a_model_that_does_not_load_in_a_process_is_reported_by_name(launch: Any) -> None:
    pod = launch(factory="no.such.module:create", PENSTOCK_PLACEMENT="Process")
    assert await asyncio.to_thread(pod.stopped) == 1
    assert "no.such.module" in (pod.folder / "termination-log").read_text()
