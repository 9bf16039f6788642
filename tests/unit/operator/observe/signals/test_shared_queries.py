"""Shared queries: one round for each Prometheus and tick, whatever the number of pools and passes."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.net.http import CallFailed, new_session
from penstock_operator.observe.signals import prometheus, promql
from penstock_operator.observe.signals import shared_queries as shared
from penstock_operator.observe.signals.credentials import Credentials
from penstock_operator.observe.signals.dcgm import QUERY as QUERY_DEVICES
from penstock_operator.observe.signals.promql import (
    QUERY,
    QUERY_DURATIONS,
    QUERY_PODS,
)
from penstock_operator.observe.signals.samples import DURATIONS, SAMPLE_METRICS
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import PoolSignals, SignalSource
from tests.bench.decide.rounds import series_of_pod
from tests.unit.operator.observe.signals.exporter import pod_object, serving
from tests.unit.operator.observe.signals.test_prometheus import QUERIED_AT, clock, series

POOLS = 300
KINDS = {
    QUERY_PODS: "time",
    QUERY: "samples",
    QUERY_DURATIONS: "durations",
    QUERY_DEVICES: "devices",
}
PORT = 19090


@pytest.fixture(autouse=True)
def long_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a tick longer than any test."""
    monkeypatch.setattr(shared, "SHARED_SECONDS", 600.0)


def address(number: int) -> str:
    return f"10.1.{number // 200}.{number % 200 + 1}"


def instance(number: int) -> str:
    return f"{address(number)}:8001"


PART = re.compile(r',instance=~"([^"]*)"')


class Server:
    """Fake Prometheus with one pod a pool; returns a given count, and counts the queries."""

    def __init__(self, *, fails: bool = False, count: int = POOLS) -> None:
        self.queries: Counter[str] = Counter()
        self._fails = fails
        self._count = count

    def route(self) -> web.RouteDef:
        return web.post("/api/v1/query", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        query = str((await request.post())["query"])
        kind = KINDS[PART.sub("", query)]
        self.queries[kind] += 1
        await asyncio.sleep(0.05)
        if self._fails:
            return web.json_response({"error": "overloaded"}, status=503)
        result = self._series(PART.search(query)) if kind == "samples" else []
        data = clock(self._count) if kind == "time" else {"resultType": "matrix", "result": result}
        return web.json_response({"status": "success", "data": data})

    def _series(self, part: re.Match[str] | None) -> list[dict[str, object]]:
        return [
            series(name, value, instance=instance(number), **labels)
            for number in range(POOLS)
            if part is None or re.fullmatch(part[1], instance(number))
            for name, value, labels in (
                ("penstock_pod_info", "1", {"uid": f"pod-{number}"}),
                ("penstock_requests_waiting", str(number), {}),
            )
        ]


def pools(url: str) -> list[PoolPods]:
    return [
        PoolPods(
            f"pool-{number}",
            "team",
            (pod_object(f"pod-{number}", address(number)),),
            MetricsServer(url),
        )
        for number in range(POOLS)
    ]


async def in_three_passes(server: Server, queries: SharedQueries) -> dict[str, PoolSignals]:
    """Read as three passes of one tick do, concurrently and one after the other."""
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        targets = pools(f"http://{ip}:{PORT}")
        first, second = await asyncio.gather(
            observe_signals(session, targets[:100], QUERIED_AT, queries),
            observe_signals(session, targets[100:200], QUERIED_AT, queries),
        )
        third = await observe_signals(session, targets[200:], QUERIED_AT, queries)
        return {**first, **second, **third}


async def test_all_passes_of_a_tick_share_one_round() -> None:
    server = Server()
    by_pool = await in_three_passes(server, SharedQueries())
    assert server.queries == {"time": 1, "samples": 1, "durations": 1, "devices": 1}
    assert len(by_pool) == POOLS
    for number in (0, 150, POOLS - 1):
        signals = by_pool[f"pool-{number}"]
        assert signals.source is SignalSource.PROMETHEUS
        assert {sample.waiting for sample in signals.samples} == {float(number)}


async def test_a_large_fleet_is_queried_in_parts_within_the_limit_of_a_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prometheus, "LIMIT_BYTES", 80_000)
    async with serving(Server().route(), port=PORT) as ip, new_session() as session:
        with pytest.raises(CallFailed, match="responded with more than 80000 bytes"):
            await prometheus.query(session, Credentials(f"http://{ip}:{PORT}"))
    server = Server(count=1_500)
    by_pool = await in_three_passes(server, SharedQueries())
    assert server.queries == {"time": 1, "samples": 5, "durations": 5, "devices": 1}
    for number in range(POOLS):
        samples = by_pool[f"pool-{number}"].samples
        assert [sample.waiting for sample in samples] == 3 * [float(number)]


@pytest.mark.parametrize(
    ("pods", "parts"), [(0, 1), (500, 1), (501, 2), (1_500, 5), (3_500, 10), (10**9, 10)]
)
def test_every_address_matches_exactly_one_part_of_a_round(pods: int, parts: int) -> None:
    matchers = [PART.search(query) for query in promql.current_queries(pods)]
    assert len(matchers) == 2 * parts
    addresses = [f"10.0.{number // 256}.{number % 256}" for number in range(2_000)]
    addresses += [f"[fd00::{number:x}]" for number in range(2_000)]
    for group in (matchers[:parts], matchers[parts:]):
        matches = Counter(
            each
            for part in group
            for each in addresses
            if part is None or re.fullmatch(part[1], f"{each}:8001")
        )
        assert matches == Counter(addresses)


async def test_the_next_tick_runs_its_own_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "SHARED_SECONDS", 0.0)
    server, queries = Server(), SharedQueries()
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        for _ in range(2):
            await observe_signals(session, pools(f"http://{ip}:{PORT}")[:1], QUERIED_AT, queries)
    assert server.queries == {"time": 2, "samples": 2, "durations": 2, "devices": 2}


async def test_a_failed_server_is_queried_once_a_tick_too() -> None:
    server = Server(fails=True)
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        queries, url = SharedQueries(), f"http://{ip}:{PORT}"
        targets = [PoolPods(f"pool-{index}", "team", (), MetricsServer(url)) for index in range(3)]
        for target in targets:
            by_pool = await observe_signals(session, [target], QUERIED_AT, queries)
            assert by_pool[target.uid].source is SignalSource.PODS
            assert "503" in by_pool[target.uid].problem
    assert server.queries == {"time": 1}


async def test_a_cancelled_pass_does_not_cancel_the_round_of_the_others() -> None:
    server, queries = Server(), SharedQueries()
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        targets = pools(f"http://{ip}:{PORT}")[:2]
        first = asyncio.create_task(observe_signals(session, targets[:1], QUERIED_AT, queries))
        second = asyncio.create_task(observe_signals(session, targets[1:], QUERIED_AT, queries))
        await asyncio.sleep(0.01)
        first.cancel()
        by_pool = await second
    assert by_pool["pool-1"].source is SignalSource.PROMETHEUS
    assert server.queries == {"time": 1, "samples": 1, "durations": 1, "devices": 1}


def answer_bytes(metrics: Iterable[str], pods: float, scrapes: int) -> float:
    """Return the size of a response for pods that have every series."""
    envelope = '{"status":"success","data":{"resultType":"matrix","result":[]}}'
    return len(envelope) + pods * len(series_of_pod(QUERIED_AT, tuple(metrics), scrapes))


@given(st.integers(1, 5_000))
def test_no_response_of_a_round_exceeds_its_bound(pods: int) -> None:
    """Holds for the part with the most addresses, and for pods with all series of text generation."""
    parts = [PART.search(query) for query in promql.current_queries(pods)]
    classes = (
        [f"10.0.0.{digit}" for digit in range(10)],
        [f"[fd00::{digit:x}]" for digit in range(16)],
    )
    for metrics, matchers in (
        (SAMPLE_METRICS, parts[: len(parts) // 2]),
        (DURATIONS, parts[len(parts) // 2 :]),
    ):
        for part in matchers:
            share = max(
                sum(part is None or bool(re.fullmatch(part[1], f"{ip}:8001")) for ip in addresses)
                / len(addresses)
                for addresses in classes
            )
            assert answer_bytes(metrics, share * pods, 3) <= 16_500_000
