"""A pod with several engines: it describes itself as one wider device, answers from all, and ends with any of them."""

import asyncio
import json
import os
import signal
from typing import Any

import aiohttp
import pytest

from penstock_api.pod_contract import State
from penstock_runtime.engine.service_time import fit
from tests.support.runtime.process import engines

LIMITS = {
    "generation": 1,
    "maxBatchSize": 8,
    "maxQueueDepth": 100,
    "maxQueueDelayMilliseconds": 0,
    "discipline": "FirstInFirstOut",
}
FIXED_SECONDS, ROW_SECONDS, ENGINES = 0.04, 0.02, 2


async def _infer(url: str, count: int) -> list[int]:
    """Send requests at once; return their statuses."""
    row = {"name": "INPUT", "datatype": "FP32", "shape": [1, 8], "data": [0.5] * 8}
    async with aiohttp.ClientSession() as session:

        async def one() -> int:
            async with session.post(f"{url}/v2/models/demo/infer", json={"inputs": [row]}) as reply:
                await reply.read()
                return reply.status

        return await asyncio.gather(*(one() for _ in range(count)))


def test_several_engines_serve_as_one_wider_device(launch: Any) -> None:
    pod = launch(
        {
            "a_milliseconds": str(1000 * FIXED_SECONDS),
            "c_milliseconds": str(1000 * ROW_SECONDS),
            "max_rows": "32",
        },
        limits=LIMITS,
        PENSTOCK_DATA_PARALLEL=str(ENGINES),
    )
    pod.ready()
    assert asyncio.run(_infer(pod.client, 24)) == [200] * 24
    text = pod.get("/control/v1/state")[1]
    line = fit(State.model_validate_json(text).curve)
    assert line.row_seconds == pytest.approx(ROW_SECONDS / ENGINES, rel=0.2)
    assert line.fixed_seconds >= 0.9 * FIXED_SECONDS
    assert json.loads(text)["effectiveMax"] == ENGINES * 32
    processes = engines(pod.process.pid)
    assert len(processes) == ENGINES
    os.kill(processes[1], signal.SIGKILL)
    assert pod.stopped() != 0
    assert "engine 1 of 2: its process was killed by SIGKILL" in pod.log.read_text()


def test_several_engines_of_a_model_that_generates_text_are_refused(launch: Any) -> None:
    model = {
        "name": "chat",
        "task": "TextGeneration",
        "source": {"type": "HuggingFace", "huggingFace": {"repository": "owner/chat"}},
    }
    pod = launch(model=model, PENSTOCK_DATA_PARALLEL="2")
    assert pod.stopped() == 1
    assert "use more pods" in pod.log.read_text()
