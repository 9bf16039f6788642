"""One round of questions a Prometheus a tick, however many pools and passes ask."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from penstock_api import names
from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.net.http import CallFailed, new_session
from penstock_operator.observe.signals import prometheus, promql
from penstock_operator.observe.signals import shared_queries as shared
from penstock_operator.observe.signals.backfill import observe_past
from penstock_operator.observe.signals.credentials import Credentials
from penstock_operator.observe.signals.dcgm import QUERY as QUERY_DEVICES
from penstock_operator.observe.signals.promql import (
    PAST_BYTES,
    QUERY,
    QUERY_DURATIONS,
    QUERY_PAST_SERIES,
    QUERY_PODS,
    past_seconds,
)
from penstock_operator.observe.signals.samples import DURATIONS, HISTORY, WANTED
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import PoolSignals, SignalSource
from tests.bench.decide.rounds import series_of_pod
from tests.unit.operator.observe.signals.exporter import pod_object, serving
from tests.unit.operator.observe.signals.test_prometheus import ASKED, clock, series

POOLS = 300
KINDS = {
    QUERY_PODS: "time",
    QUERY_PAST_SERIES: "series",
    QUERY: "samples",
    QUERY_DURATIONS: "durations",
    QUERY_DEVICES: "devices",
}
"""Anything else asks for the past."""
PORT = 19090


@pytest.fixture(autouse=True)
def one_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick is longer than any test."""
    monkeypatch.setattr(shared, "SHARED_SECONDS", 600.0)


def address(number: int) -> str:
    return f"10.1.{number // 200}.{number % 200 + 1}"


def instance(number: int) -> str:
    return f"{address(number)}:8001"


PART = re.compile(r',instance=~"([^"]*)"')


class Server:
    """Knows one pod of each pool, says so of as many as it is told, and counts the questions."""

    def __init__(self, *, fails: bool = False, says: int = POOLS) -> None:
        self.asked: Counter[str] = Counter()
        self._fails = fails
        self._says = says

    def route(self) -> web.RouteDef:
        return web.post("/api/v1/query", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        query = str((await request.post())["query"])
        kind = KINDS.get(PART.sub("", query), "past")
        self.asked[kind] += 1
        await asyncio.sleep(0.05)
        if self._fails:
            return web.json_response({"error": "overloaded"}, status=503)
        result = self._series(PART.search(query)) if kind in ("samples", "past") else []
        counts = kind in ("time", "series")
        data = clock(self._says) if counts else {"resultType": "matrix", "result": result}
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


async def in_three_passes(server: Server, rounds: SharedQueries) -> dict[str, PoolSignals]:
    """Ask as three passes of one tick do, side by side and one after the other."""
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        asked = pools(f"http://{ip}:{PORT}")
        first, second = await asyncio.gather(
            observe_signals(session, asked[:100], ASKED, rounds),
            observe_signals(session, asked[100:200], ASKED, rounds),
        )
        third = await observe_signals(session, asked[200:], ASKED, rounds)
        return {**first, **second, **third}


async def test_all_passes_of_a_tick_share_one_round() -> None:
    server = Server()
    found = await in_three_passes(server, SharedQueries())
    assert server.asked == {"time": 1, "samples": 1, "durations": 1, "devices": 1}
    assert len(found) == POOLS
    for number in (0, 150, POOLS - 1):
        signals = found[f"pool-{number}"]
        assert signals.source is SignalSource.PROMETHEUS
        assert {one.waiting for one in signals.samples} == {float(number)}


async def test_a_large_fleet_is_asked_about_a_part_at_a_time_within_the_bounds_of_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prometheus, "LIMIT_BYTES", 80_000)
    async with serving(Server().route(), port=PORT) as ip, new_session() as session:
        with pytest.raises(CallFailed, match="answered more than 80000 bytes"):
            await prometheus.query(session, Credentials(f"http://{ip}:{PORT}"))
    server = Server(says=1_500)
    found = await in_three_passes(server, SharedQueries())
    assert server.asked == {"time": 1, "samples": 5, "durations": 5, "devices": 1}
    for number in range(POOLS):
        samples = found[f"pool-{number}"].samples
        assert [one.waiting for one in samples] == 3 * [float(number)]


@pytest.mark.parametrize(
    ("pods", "parts"), [(0, 1), (500, 1), (501, 2), (1_500, 5), (3_500, 10), (10**9, 10)]
)
def test_every_address_is_in_exactly_one_part_of_a_round(pods: int, parts: int) -> None:
    asked = [PART.search(one) for one in promql.of_now(pods)]
    assert len(asked) == 2 * parts
    addresses = [f"10.0.{one // 256}.{one % 256}" for one in range(2_000)]
    addresses += [f"[fd00::{one:x}]" for one in range(2_000)]
    for found in (asked[:parts], asked[parts:]):
        held = Counter(
            each
            for part in found
            for each in addresses
            if part is None or re.fullmatch(part[1], f"{each}:8001")
        )
        assert held == Counter(addresses)


async def test_the_next_tick_asks_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared, "SHARED_SECONDS", 0.0)
    server, rounds = Server(), SharedQueries()
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        for _ in range(2):
            await observe_signals(session, pools(f"http://{ip}:{PORT}")[:1], ASKED, rounds)
    assert server.asked == {"time": 2, "samples": 2, "durations": 2, "devices": 2}


async def test_a_server_that_fails_is_asked_once_a_tick_too() -> None:
    server = Server(fails=True)
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        rounds, url = SharedQueries(), f"http://{ip}:{PORT}"
        nowhere = [PoolPods(f"pool-{one}", "team", (), MetricsServer(url)) for one in range(3)]
        for one in nowhere:
            found = await observe_signals(session, [one], ASKED, rounds)
            assert found[one.uid].source is SignalSource.PODS
            assert "503" in found[one.uid].problem
    assert server.asked == {"time": 1}


async def test_a_pass_that_is_cancelled_takes_the_round_from_nobody() -> None:
    server, rounds = Server(), SharedQueries()
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        asked = pools(f"http://{ip}:{PORT}")[:2]
        first = asyncio.create_task(observe_signals(session, asked[:1], ASKED, rounds))
        second = asyncio.create_task(observe_signals(session, asked[1:], ASKED, rounds))
        await asyncio.sleep(0.01)
        first.cancel()
        found = await second
    assert found["pool-1"].source is SignalSource.PROMETHEUS
    assert server.asked == {"time": 1, "samples": 1, "durations": 1, "devices": 1}


async def test_the_past_is_asked_for_once_by_all_that_are_met_together() -> None:
    server, rounds = Server(), SharedQueries()
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        asked = pools(f"http://{ip}:{PORT}")
        halves = [asked[:150], asked[150:]]
        found = await asyncio.gather(*(observe_past(session, half, rounds) for half in halves))
    assert server.asked == {"series": 1, "past": 1}
    assert {uid for one in found for uid in one} == {pool.uid for pool in asked}
    assert found[0]["pool-7"].samples[0].waiting == 7.0


async def test_a_server_that_fails_has_no_past() -> None:
    server = Server(fails=True)
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        asked = pools(f"http://{ip}:{PORT}")[:2]
        assert await observe_past(session, asked, SharedQueries()) == {}


async def test_a_past_of_more_series_than_one_answer_holds_is_not_asked_for() -> None:
    assert past_seconds(1) == past_seconds(500 * ONE_SHOT) == 180.0
    assert past_seconds(500 * GENERATING) == 0
    server = Server(says=500 * GENERATING)
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        asked = pools(f"http://{ip}:{PORT}")[:2]
        assert await observe_past(session, asked, SharedQueries()) == {}
    assert server.asked == {"series": 1}


async def test_a_past_that_is_larger_than_estimated_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prometheus, "LIMIT_PAST_BYTES", 10_000)
    server = Server(says=20)
    async with serving(server.route(), port=PORT) as ip, new_session() as session:
        asked = pools(f"http://{ip}:{PORT}")[:2]
        assert await observe_past(session, asked, SharedQueries()) == {}
    assert server.asked == {"series": 1, "past": 1}


def answer_bytes(metrics: Iterable[str], pods: float, scrapes: int) -> float:
    """Return the size of an answer about pods that have every series there is."""
    whole = '{"status":"success","data":{"resultType":"matrix","result":[]}}'
    return len(whole) + pods * len(series_of_pod(ASKED, tuple(metrics), scrapes))


def series_of(metrics: Iterable[str]) -> int:
    return series_of_pod(ASKED, tuple(metrics), 1).count('"metric"')


GENERATING = series_of(HISTORY)
ONE_SHOT = GENERATING - 2 * len(names.GENERATION_TERMS)


@given(st.integers(1, 5_000), st.floats(0, 1))
def test_no_answer_about_the_past_is_larger_than_its_bound(pods: int, generating: float) -> None:
    """Whatever share of the pods generates text, by the JSON of real series."""
    texts = round(generating * pods)
    seconds = past_seconds(ONE_SHOT * (pods - texts) + GENERATING * texts)
    if seconds:
        scrapes = int(seconds / 5)
        plain = [one for one in HISTORY if one != names.METRIC_GENERATION_CURVE]
        size = answer_bytes(plain, pods - texts, scrapes) + answer_bytes(HISTORY, texts, scrapes)
        assert seconds >= 60
        assert size <= 1.25 * PAST_BYTES
    else:
        assert pods > 300, "a small fleet always has a past"


@given(st.integers(1, 5_000))
def test_no_answer_of_a_round_is_larger_than_its_bound(pods: int) -> None:
    """By the most addresses that one part may have, and all the series of pods that generate text."""
    parts = [PART.search(one) for one in promql.of_now(pods)]
    classes = [f"10.0.0.{one}" for one in range(10)], [f"[fd00::{one:x}]" for one in range(16)]
    for metrics, asked in (
        (WANTED, parts[: len(parts) // 2]),
        (DURATIONS, parts[len(parts) // 2 :]),
    ):
        for part in asked:
            share = max(
                sum(part is None or bool(re.fullmatch(part[1], f"{one}:8001")) for one in each)
                / len(each)
                for each in classes
            )
            assert answer_bytes(metrics, share * pods, 3) <= 16_500_000
