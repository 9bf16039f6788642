"""A worker pod that is stopped before it joins its leader."""

import asyncio
from pathlib import Path

import pytest

from penstock_runtime import worker_pod
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.worker_pod import FollowingPod
from tests.unit.runtime.protocols.openai.served import a_config


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FollowingPod:
    monkeypatch.setattr(worker_pod, "worker_ranks", lambda *_: None)
    return FollowingPod(a_config(tmp_path))


async def test_sigterm_ends_a_worker_whose_model_is_being_fetched(
    pod: FollowingPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetched(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(worker_pod, "fetched", fetched)
    stop = asyncio.Event()
    running = asyncio.create_task(pod.run(stop))
    await asyncio.sleep(0)
    stop.set()
    async with asyncio.timeout(10):
        assert await running == 0


async def test_a_model_that_cannot_be_fetched_is_reported(
    pod: FollowingPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetched(*_: object) -> None:
        raise ModelLoadFailed("the disk is full")

    monkeypatch.setattr(worker_pod, "fetched", fetched)
    (tmp_path / "termination-log").touch()
    assert await pod.run(asyncio.Event()) == 1
    assert (tmp_path / "termination-log").read_text() == "ModelLoadFailed: the disk is full"
