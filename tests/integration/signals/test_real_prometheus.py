"""A real Prometheus scrapes small real exporters: fresh, NaN, stale, gone, slow."""

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
from penstock_operator.observe.signals.backfill import observe_past
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
    """Return a session as the operator makes it."""
    async with new_session() as made:
        yield made


async def until(
    ask: Callable[[], Awaitable[PoolSignals]],
    enough: Callable[[PoolSignals], bool],
    seconds: float = 40,
) -> PoolSignals:
    """Ask until the answer is enough."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = await ask()
        except CallFailed:
            found = PoolSignals(SignalSource.NONE)
        if enough(found):
            return found
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.5)


async def test_samples_come_with_their_own_times_and_raw_counters(
    tmp_path: Path, session: ClientSession
) -> None:
    figures = Figures("uid-1", waiting=3, rows=100)
    async with AsyncExitStack() as stack:
        ip = await stack.enter_async_context(serving(metrics_route(figures)))
        url = await stack.enter_async_context(prometheus(tmp_path, [ip]))
        pod = pod_object("uid-1", ip)

        async def ask() -> PoolSignals:
            return (await read_prometheus(session, url, {"pool": ("team", [pod])}))["pool"]

        def fresh(one: PoolSignals) -> bool:
            age = (one.queried_at or 0.0) - one.samples[-1].time if len(one.samples) >= 3 else 3.0
            return 0 <= age < 3

        found = await until(ask, fresh)
        newest = found.samples[-1]
        assert (newest.uid, newest.waiting, newest.rows_received) == ("uid-1", 3.0, 100.0)
        assert newest.curve is not None
        assert newest.batch_duration_buckets[-1] == (float("inf"), 10.0)
        await until(ask, lambda one: missing(one, [pod], time.time()) == [])

        figures.waiting = float("nan")
        found = await until(ask, lambda one: bool(one.samples) and one.samples[-1].waiting is None)
        assert found.samples[-1].rows_received == 100.0, (
            "NaN is absent, its neighbours are not harmed"
        )

        figures.uid = "uid-2"
        pod = pod_object("uid-2", ip)
        found = await until(ask, lambda one: len(one.samples) > 0)
        assert {one.uid for one in found.samples} == {"uid-2"}, (
            "scrapes of the pod before do not count"
        )


async def test_a_large_fleet_is_told_a_part_at_a_time(
    tmp_path: Path, session: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promql, "PODS_PER_QUERY", 1)
    async with AsyncExitStack() as stack:
        pods = [
            pod_object(uid, await stack.enter_async_context(serving(metrics_route(Figures(uid)))))
            for uid in ("uid-1", "uid-2", "uid-3")
        ]
        url = await stack.enter_async_context(prometheus(tmp_path, [str(pod.ip) for pod in pods]))

        async def ask() -> PoolSignals:
            return (await read_prometheus(session, url, {"pool": ("team", pods)}))["pool"]

        def whole(found: PoolSignals) -> bool:
            return {one.uid for one in found.samples} == {pod.uid for pod in pods}

        found = await until(ask, lambda one: whole(one) and not missing(one, pods, time.time()))
        assert len({(one.uid, one.time) for one in found.samples}) == len(found.samples)


async def test_a_pod_that_is_gone_grows_old_and_is_then_absent(
    tmp_path: Path, session: ClientSession
) -> None:
    async with AsyncExitStack() as stack:
        pods = await stack.enter_async_context(AsyncExitStack())
        ip = await pods.enter_async_context(serving(metrics_route(Figures("uid-1"))))
        url = await stack.enter_async_context(prometheus(tmp_path, [ip]))
        pool = PoolPods("pool", "team", (pod_object("uid-1", ip),), MetricsServer(url))

        async def ask() -> PoolSignals:
            return (await observe_signals(session, [pool], time.time(), SharedQueries()))["pool"]

        await until(ask, lambda one: one.source is SignalSource.PROMETHEUS)
        await pods.aclose()
        stale = await until(ask, lambda one: one.source is not SignalSource.PROMETHEUS)
        assert stale.source is SignalSource.NONE
        assert "no sample under 10 s old" in stale.problem
        await stack.enter_async_context(serving(metrics_route(Figures("uid-1")), ip=ip))
        back = await until(ask, lambda one: one.source is SignalSource.PROMETHEUS)
        assert back.problem == ""


async def test_slow_scrapes_are_not_waited_for(tmp_path: Path, session: ClientSession) -> None:
    async with AsyncExitStack() as stack:
        ip = await stack.enter_async_context(serving(metrics_route(Figures("uid-1"))))
        url = await stack.enter_async_context(prometheus(tmp_path, [ip], interval=30))
        pool = PoolPods("pool", "team", (pod_object("uid-1", ip),), MetricsServer(url))

        async def ask() -> PoolSignals:
            found = (await observe_signals(session, [pool], time.time(), SharedQueries()))["pool"]
            assert found.source is SignalSource.PODS
            return found

        def told(found: PoolSignals) -> bool:
            return "scrapes more slowly than every 5 s" in found.problem

        await until(ask, told)
        for _ in range(6):
            await asyncio.sleep(2)
            assert told(await ask())


async def test_a_server_that_dies_is_left_for_the_pods(
    tmp_path: Path, session: ClientSession
) -> None:
    async with AsyncExitStack() as stack:
        ip = await stack.enter_async_context(serving(metrics_route(Figures("uid-1"))))
        server = await stack.enter_async_context(AsyncExitStack())
        url = await server.enter_async_context(prometheus(tmp_path, [ip]))
        pool = PoolPods("pool", "team", (pod_object("uid-1", ip),), MetricsServer(url))

        async def ask() -> PoolSignals:
            return (await observe_signals(session, [pool], time.time(), SharedQueries()))["pool"]

        await until(ask, lambda one: one.source is SignalSource.PROMETHEUS)
        await server.aclose()
        found = await ask()
        assert found.source is SignalSource.PODS
        assert found.problem == f"Prometheus at {url} could not be reached: Connection refused"


async def test_the_last_minutes_are_there_for_who_comes_later(
    tmp_path: Path, session: ClientSession
) -> None:
    figures = Figures("uid-1", rows=100)
    async with AsyncExitStack() as stack:
        ip = await stack.enter_async_context(serving(metrics_route(figures)))
        url = await stack.enter_async_context(prometheus(tmp_path, [ip]))
        pool = PoolPods(
            "pool", "team", (pod_object("uid-1", ip), pod_object("uid-9")), MetricsServer(url)
        )

        async def ask() -> PoolSignals:
            figures.rows += 10
            return (await observe_past(session, [pool], SharedQueries())).get(
                "pool", PoolSignals(SignalSource.NONE)
            )

        found = await until(ask, lambda one: len(one.samples) >= 20)
        assert found.queried_at is not None
        times = [one.time for one in found.samples]
        assert times == sorted(times)
        assert found.queried_at - times[0] > 15, "more than a tick's round tells"
        rows = [one.rows_received or 0.0 for one in found.samples]
        assert rows == sorted(rows)
        assert rows[-1] > rows[0] + 100
        assert all(one.curve is not None and one.waiting == 3.0 for one in found.samples)
        assert {one.uid for one in found.samples} == {"uid-1"}
