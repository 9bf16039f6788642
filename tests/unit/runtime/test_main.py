"""A pod that is stopped while it loads ends at once; one that may have requests already drains."""

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
