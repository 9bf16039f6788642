"""Signals from a real Prometheus whose targets are fresh, stale, absent, slow, or report NaN."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession

from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.net.http import CallFailed, new_session
from penstock_operator.observe.signals import promql
from penstock_operator.observe.signals.prometheus import missing, read_prometheus
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import PoolSignals, SignalSource
from tests.unit.operator.observe.signals.exporter import (
    Figures,
    free_address,
    metrics_route,
    pod_object,
    serving,
)

pytestmark = pytest.mark.integration

CONFIG = """
global: {{scrape_interval: {interval}s, scrape_timeout: 1s}}
scrape_configs:
- job_name: pools
  static_configs:
  - targets: [{targets}]
    labels: {{namespace: team, pool: chat}}
"""


@asynccontextmanager
async def prometheus(folder: Path, targets: list[str], interval: int = 1) -> AsyncIterator[str]:
    """Run Prometheus over the targets; yield its URL."""
    listed = ", ".join(f"'{ip}:8001'" for ip in targets)
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(interval=interval, targets=listed))
    address = f"{free_address()}:9090"
    process = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=error",
    )
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        await process.wait()


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    """A session as the operator creates it."""
    async with new_session() as client:
        yield client


async def until(
    observe: Callable[[], Awaitable[PoolSignals]],
    enough: Callable[[PoolSignals], bool],
    seconds: float = 40,
) -> PoolSignals:
    """Observe repeatedly until the signals suffice; return them."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            observed = await observe()
        except CallFailed:
            observed = PoolSignals(SignalSource.NONE)
        if enough(observed):
            return observed
        assert time.monotonic() < deadline, observed
        await asyncio.sleep(0.5)


async def test_samples_come_with_their_own_times_and_raw_counters(
    tmp_path: Path, session: ClientSession
) -> None:
    figures = Figures("uid-1", waiting=3, rows=100)
    async with AsyncExitStack() as stack:
        ip = await stack.enter_async_context(serving(metrics_route(figures)))
        url = await stack.enter_async_context(prometheus(tmp_path, [ip]))
        pod = pod_object("uid-1", ip)

        async def observe() -> PoolSignals:
            return (await read_prometheus(session, url, {"pool": ("team", [pod])}))["pool"]

        def fresh(candidate: PoolSignals) -> bool:
            age = (
                (candidate.queried_at or 0.0) - candidate.samples[-1].time
                if len(candidate.samples) >= 3
                else 3.0
            )
            return 0 <= age < 3

        observed = await until(observe, fresh)
        newest = observed.samples[-1]
        assert (newest.uid, newest.waiting, newest.rows_received) == ("uid-1", 3.0, 100.0)
        assert newest.curve is not None
        assert newest.batch_duration_buckets[-1] == (float("inf"), 10.0)
        await until(observe, lambda signals: missing(signals, [pod], time.time()) == [])

        figures.waiting = float("nan")
        observed = await until(
            observe, lambda signals: bool(signals.samples) and signals.samples[-1].waiting is None
        )
        assert observed.samples[-1].rows_received == 100.0, (
            "NaN counts as absent, other values stay"
        )

        figures.uid = "uid-2"
        pod = pod_object("uid-2", ip)
        observed = await until(observe, lambda signals: len(signals.samples) > 0)
        assert {sample.uid for sample in observed.samples} == {"uid-2"}, (
            "samples of the former pod do not count"
        )


async def test_a_large_fleet_is_queried_in_parts(
    tmp_path: Path, session: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promql, "PODS_PER_QUERY", 1)
    async with AsyncExitStack() as stack:
        pods = [
            pod_object(uid, await stack.enter_async_context(serving(metrics_route(Figures(uid)))))
            for uid in ("uid-1", "uid-2", "uid-3")
        ]
        url = await stack.enter_async_context(prometheus(tmp_path, [str(pod.ip) for pod in pods]))

        async def observe() -> PoolSignals:
            return (await read_prometheus(session, url, {"pool": ("team", pods)}))["pool"]

        def whole(candidate: PoolSignals) -> bool:
            return {sample.uid for sample in candidate.samples} == {pod.uid for pod in pods}

        observed = await until(
            observe, lambda signals: whole(signals) and not missing(signals, pods, time.time())
        )
        assert len({(sample.uid, sample.time) for sample in observed.samples}) == len(
            observed.samples
        )


async def test_the_samples_of_a_deleted_pod_become_stale_and_then_absent(
    tmp_path: Path, session: ClientSession
) -> None:
    async with AsyncExitStack() as stack:
        pods = await stack.enter_async_context(AsyncExitStack())
        ip = await pods.enter_async_context(serving(metrics_route(Figures("uid-1"))))
        url = await stack.enter_async_context(prometheus(tmp_path, [ip]))

        async def observe() -> PoolSignals:
            pool = PoolPods("pool", "team", (pod_object("uid-1", ip),), MetricsServer(url))
            return (await observe_signals(session, [pool], time.time(), SharedQueries()))["pool"]

        await until(observe, lambda signals: signals.source is SignalSource.PROMETHEUS)
        await pods.aclose()
        stale = await until(observe, lambda signals: signals.source is not SignalSource.PROMETHEUS)
        assert stale.source is SignalSource.NONE
        assert "no sample under 10 s old" in stale.problem
        await stack.enter_async_context(serving(metrics_route(Figures("uid-1")), ip=ip))
        back = await until(observe, lambda signals: signals.source is SignalSource.PROMETHEUS)
        assert back.problem == ""


async def test_slow_scrapes_are_not_waited_for(tmp_path: Path, session: ClientSession) -> None:
    async with AsyncExitStack() as stack:
        ip = await stack.enter_async_context(serving(metrics_route(Figures("uid-1"))))
        url = await stack.enter_async_context(prometheus(tmp_path, [ip], interval=30))
        pool = PoolPods("pool", "team", (pod_object("uid-1", ip),), MetricsServer(url))

        async def observe() -> PoolSignals:
            observed = (await observe_signals(session, [pool], time.time(), SharedQueries()))[
                "pool"
            ]
            assert observed.source is SignalSource.PODS
            return observed

        def reported(candidate: PoolSignals) -> bool:
            return "scrapes less often than every 5 s" in candidate.problem

        await until(observe, reported)
        for _ in range(6):
            await asyncio.sleep(2)
            assert reported(await observe())


async def test_pods_are_read_directly_when_the_server_dies(
    tmp_path: Path, session: ClientSession
) -> None:
    async with AsyncExitStack() as stack:
        ip = await stack.enter_async_context(serving(metrics_route(Figures("uid-1"))))
        server = await stack.enter_async_context(AsyncExitStack())
        url = await server.enter_async_context(prometheus(tmp_path, [ip]))

        async def observe() -> PoolSignals:
            pool = PoolPods("pool", "team", (pod_object("uid-1", ip),), MetricsServer(url))
            return (await observe_signals(session, [pool], time.time(), SharedQueries()))["pool"]

        await until(observe, lambda signals: signals.source is SignalSource.PROMETHEUS)
        await server.aclose()
        observed = await observe()
        assert observed.source is SignalSource.PODS
        assert observed.problem == f"Prometheus at {url} is unreachable: Connection refused"
