"""A pod whose model is split over ranks answers as one process does, and ends when a rank dies or hangs."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from tests.integration.runtime.test_generation_placements import complete, generating
from tests.integration.runtime.test_placements import gone
from tests.support.runtime.process import children, engines
from tests.unit.runtime.protocols.openai.served import save_tiny_model

READINESS_SECONDS = 10.0
"""Time from the death or hang of a rank by which the pod must have left readiness."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model_folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(model_folder)
    return model_folder


def split(launch: Any, folder: Path, tensor: int, stages: int, **more: str) -> Any:
    """Start a pod of `stages` of `tensor` ranks; float64, in which the order of a sum changes no token."""
    more["PENSTOCK_TENSOR_PARALLEL"] = str(tensor)
    more["PENSTOCK_PIPELINE_PARALLEL"] = str(stages)
    return generating(launch, folder, dtype="float64", **more)


async def answers(pod: Any) -> list[Any]:
    async with aiohttp.ClientSession() as session:
        sampled = [complete(pod, session, seed=n, temperature=1) for n in range(4)]
        penalized = complete(pod, session, frequency_penalty=0.5, max_tokens=24)
        return [answer["choices"] for answer in await asyncio.gather(*sampled, penalized)]


async def test_a_split_model_answers_as_one_process_does_and_leaves_no_process(
    launch: Any, folder: Path
) -> None:
    choices = []
    for tensor, stages in ((1, 1), (2, 2)):
        pod = split(launch, folder, tensor, stages, PENSTOCK_PLACEMENT="Process")
        await asyncio.to_thread(pod.ready)
        assert len(engines(pod.process.pid)) == tensor * stages
        started = children(pod.process.pid)
        choices.append(await answers(pod))
        pod.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(pod.stopped) == 0
        await gone(started)
    assert choices[0] == choices[1]


async def unready(pod: Any) -> None:
    """Wait until `/readyz` fails, or the pod has exited."""
    began = time.monotonic()
    async with aiohttp.ClientSession() as session:
        while time.monotonic() - began < READINESS_SECONDS:
            try:
                async with session.get(f"{pod.cluster}/readyz") as reply:
                    if reply.status != 200:
                        return
            except aiohttp.ClientError:
                return
            await asyncio.sleep(0.05)
    raise AssertionError(f"/readyz is still 200 after {READINESS_SECONDS} s")


async def ended(pod: Any, ranks: list[int]) -> str:
    """Return the termination message of a pod that exits with 1 and leaves no rank behind."""
    assert await asyncio.to_thread(pod.stopped) == 1
    await gone(ranks)
    return str((pod.folder / "termination-log").read_text())


BUSY, IDLE = True, False
LONG = pytest.mark.long
KILL, STOP = signal.SIGKILL, signal.SIGSTOP


class Loss(NamedTuple):
    """How one rank of two is lost."""

    fault: signal.Signals
    rank: int
    stages: int
    busy: bool


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(Loss(KILL, 1, 2, BUSY), id="killed in a step"),
        pytest.param(Loss(STOP, 1, 1, IDLE), id="frozen while idle"),
        pytest.param(Loss(KILL, 1, 1, BUSY), id="part killed in a step", marks=LONG),
        pytest.param(Loss(KILL, 1, 1, IDLE), id="part killed while idle", marks=LONG),
        pytest.param(Loss(STOP, 1, 1, BUSY), id="part frozen in a step", marks=LONG),
        pytest.param(Loss(STOP, 0, 1, BUSY), id="rank 0 frozen in a step", marks=LONG),
        pytest.param(Loss(KILL, 1, 2, IDLE), id="stage killed while idle", marks=LONG),
        pytest.param(Loss(STOP, 1, 2, BUSY), id="stage frozen in a step", marks=LONG),
        pytest.param(Loss(STOP, 1, 2, IDLE), id="stage frozen while idle", marks=LONG),
        pytest.param(Loss(KILL, 0, 2, BUSY), id="last stage killed in a step", marks=LONG),
    ],
)
async def test_a_lost_rank_ends_readiness_with_its_words(
    launch: Any, folder: Path, loss: Loss
) -> None:
    pod = split(launch, folder, 2 // loss.stages, loss.stages)
    await asyncio.to_thread(pod.ready)
    ranks = sorted(engines(pod.process.pid))  # rank 0 is started first
    left: list[asyncio.Task[None]] = []

    def interrupt() -> None:
        os.kill(ranks[loss.rank], loss.fault)
        left.append(asyncio.create_task(unready(pod)))

    if loss.busy:
        lines = await interrupted(pod, interrupt)
        assert lines[-1] == b"data: [DONE]"
        assert b'"error"' in lines[-2]
    else:
        interrupt()
    await left[0]
    words = await ended(pod, ranks)
    assert words.startswith("EngineDied: ")
    known = "was killed by SIGKILL" if loss.fault is signal.SIGKILL else "no sign of life"
    assert f"rank {loss.rank} of 2: " in words
    assert known in words


async def interrupted(pod: Any, interrupt: Callable[[], None]) -> list[bytes]:
    """Return the lines of a stream, at whose third `interrupt` is called."""
    body = {"prompt": "A gate", "max_tokens": 900, "ignore_eos": True, "stream": True}
    lines: list[bytes] = []
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{pod.client}/v1/completions", json=body) as reply,
    ):
        async for line in reply.content:
            lines += filter(None, [line.strip()])
            if len(lines) == 3 and line.strip():
                interrupt()
    return lines


@pytest.mark.parametrize(
    ("tensor", "stages", "says"),
    [
        pytest.param(
            4,  # of 4 heads, 2 of keys and values
            1,
            "4 ranks (PENSTOCK_TENSOR_PARALLEL) do not divide the 2 key-value heads of this model: use 1, 2",
            id="heads",
        ),
        pytest.param(
            1,
            3,
            "3 stages (PENSTOCK_PIPELINE_PARALLEL) are more than the 2 layers of this model: use at most 2",
            id="layers",
            marks=LONG,
        ),
    ],
)
async def test_ranks_that_do_not_divide_the_model_are_refused_with_the_numbers(
    launch: Any, folder: Path, tensor: int, stages: int, says: str
) -> None:
    pod = split(launch, folder, tensor, stages)
    assert await asyncio.to_thread(pod.stopped) == 1
    words = (pod.folder / "termination-log").read_text()
    assert words.startswith("ModelLoadFailed: ")
    assert words.endswith(says)
