"""The end of a load: by SIGTERM, by its success in the same moment, and by an error of any kind."""

import asyncio

import pytest

from penstock_runtime import main
from penstock_runtime.serving.health import Stage
from tests.unit.runtime.conftest import Running


async def test_a_pod_that_is_stopped_as_it_becomes_warm_drains(
    pod: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = asyncio.Event()

    async def load() -> None:
        stop.set()

    monkeypatch.setattr(pod.pod, "load", load)
    assert await main._loaded(pod.pod, stop)
    assert pod.pod.health.stage is Stage.SERVING


async def test_a_pod_that_is_stopped_while_it_loads_ends(
    pod: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, forever = asyncio.Event(), asyncio.Event()

    async def load() -> None:
        stop.set()
        await forever.wait()

    monkeypatch.setattr(pod.pod, "load", load)
    assert not await main._loaded(pod.pod, stop)
    assert pod.pod.health.stage is Stage.DRAINING


async def test_a_load_that_fails_in_any_way_leaves_its_cause(
    pod: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load() -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr(pod.pod, "load", load)
    log = pod.pod.config.files.termination_log
    log.touch()
    assert not await main._loaded(pod.pod, asyncio.Event())
    assert log.read_text().startswith(
        "ModelLoadFailed: UnicodeDecodeError: 'utf-8' codec can't decode"
    )


async def test_a_load_that_is_stopped_ends_its_own_work(
    pod: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, ended = asyncio.Event(), asyncio.Event()

    async def load() -> None:
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(pod.pod, "load", load)
    assert not await main._loaded(pod.pod, stop)
    assert ended.is_set()
