"""Trials on a pod that ends or rejects settings: the failure belongs to the settings that were measured."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from penstock_api import names
from penstock_tuner.errors import NoRequest, PodFailed, PodRejected
from penstock_tuner.pod import MeasuredPod, Pods
from penstock_tuner.settings import FailedRequest, Latencies, TunedSettings, TuningObjective
from penstock_tuner.trials import OfferedLoad, TrialMeasurer

SETTINGS = TunedSettings(8, 5)


@dataclass
class FakePod:
    """A process that sleeps, and a server as the port of a pod."""

    pods: Pods
    pod: MeasuredPod
    death: str = ""
    sent: list[float] = field(default_factory=list)
    limits: int = 200
    kills_at: int | None = None

    async def send(
        self, _session: aiohttp.ClientSession, began: float
    ) -> Latencies | FailedRequest:
        self.sent.append(began)
        if len(self.sent) == self.kills_at:
            self.pod.process.kill()
            self.death = "the engine died: no kernel"
        await asyncio.sleep(0.01)
        return (
            FailedRequest("500 no engine") if self.death else Latencies(time.perf_counter() - began)
        )

    async def healthz(self, _request: web.Request) -> web.Response:
        return web.Response(status=500 if self.death else 200, text=self.death or "ok")

    async def patch(self, _request: web.Request) -> web.Response:
        return web.json_response({}, status=self.limits)

    @property
    def load(self) -> OfferedLoad:
        return OfferedLoad(lambda _url: self.send, 1, 1)

    @property
    def trials(self) -> TrialMeasurer:
        return TrialMeasurer(self.pods, self.load, TuningObjective(500), 0.01, clients=2)


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncIterator[FakePod]:
    """A running pod that has the settings."""
    process = await asyncio.create_subprocess_exec("sleep", "60")
    (tmp_path / "pod.log").write_text("last words")
    app = web.Application()
    async with aiohttp.ClientSession() as session, Pods({}, tmp_path, session) as pods:
        pod = MeasuredPod(process, tmp_path / "pod.log", "", "", session)
        pods._pod, pods._process = pod, SETTINGS.process
        fake = FakePod(pods, pod)
        app.router.add_get(names.PATH_HEALTHZ, fake.healthz)
        app.router.add_patch(names.PATH_LIMITS, fake.patch)
        async with TestServer(app) as server:
            pod.cluster_url = pod.client_url = str(server.make_url("")).rstrip("/")
            yield fake


async def test_a_pod_that_ends_while_it_is_measured_fails_with_these_settings(
    fake: FakePod,
) -> None:
    assert (await fake.trials.closed(SETTINGS, 1.0)).completed > 0
    fake.kills_at = len(fake.sent) + 1
    with pytest.raises(PodFailed, match="the engine died: no kernel"):
        await fake.trials.closed(SETTINGS, 0.1)
    assert fake.pods._pod is None


async def test_a_pod_that_has_ended_is_started_again(
    fake: FakePod, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await fake.pods.running(SETTINGS) is fake.pod
    fake.pod.process.kill()
    await fake.pod.process.wait()
    process = await asyncio.create_subprocess_exec("sleep", "60")
    another = MeasuredPod(process, fake.pod.log, "", "", fake.pod.session)

    async def start(*_: object) -> MeasuredPod:
        return another

    monkeypatch.setattr(MeasuredPod, "start", start)
    monkeypatch.setattr("penstock_tuner.pod.pod_environment", lambda *_: {})
    assert await fake.pods.running(SETTINGS) is another


async def test_a_pod_that_rejects_settings_serves_the_next_ones(fake: FakePod) -> None:
    fake.limits = 400
    with pytest.raises(PodRejected, match=r"PATCH .*: 400"):
        await fake.trials.closed(SETTINGS, 0.1)
    fake.limits = 200
    assert await fake.pods.running(SETTINGS) is fake.pod
    assert (await fake.trials.closed(SETTINGS, 0.1)).failed == 0


async def test_a_load_that_a_dead_pod_does_not_serve_is_the_failure_of_the_pod(
    fake: FakePod,
) -> None:
    await fake.load.check(fake.pod)
    fake.kills_at = 2
    with pytest.raises(PodFailed, match="no kernel"):
        await fake.load.check(fake.pod)


async def test_a_load_that_a_pod_rejects_is_the_failure_of_the_load(fake: FakePod) -> None:
    async def refuse(_session: aiohttp.ClientSession, _began: float) -> FailedRequest:
        return FailedRequest("400 at most 8 rows")

    with pytest.raises(NoRequest, match="400 at most 8 rows: correct --rows"):
        await OfferedLoad(lambda _url: refuse, 1, 1).check(fake.pod)
