"""Responses of Prometheus over a real socket: which series count; the real server is in tests/integration."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.net.http import CallFailed, new_session
from penstock_operator.observe.signals.dcgm import QUERY as QUERY_DEVICES
from penstock_operator.observe.signals.prometheus import missing, read_prometheus
from penstock_operator.observe.signals.promql import QUERY, QUERY_DURATIONS, QUERY_PODS
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import PodSample, PoolSignals, SignalSource
from penstock_operator.reconcile_state import HOLD_SECONDS, RECURRING_GAPS, Fallback
from tests.unit.operator.observe.signals.exporter import (
    Figures,
    free_address,
    metrics_route,
    never,
    pod_object,
    serving,
)

QUERIED_AT = 2_000.0
IP = "10.0.0.1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def series(name: str, value: str, **labels: str) -> dict[str, Any]:
    """Return one series of three scrapes, 5 s apart, the last 1 s old."""
    base = {"__name__": name, "namespace": "team", "instance": f"{IP}:8001", "job": "pools"}
    values = [[QUERIED_AT - 11 + 5 * i, value] for i in range(3)]
    return {"metric": {**base, **labels}, "values": values}


def pod_series(uid: str = "uid-1", **labels: str) -> list[dict[str, Any]]:
    """Return the series of a pod, as in a response of Prometheus."""
    return [
        series("penstock_pod_info", "1", uid=uid, **labels),
        series("penstock_requests_waiting", "3", **labels),
        series("penstock_rows_received_total", "100", **labels),
    ]


def clock(pods: int) -> dict[str, Any]:
    """Return a response with a server's time and its number of pods."""
    return {"resultType": "vector", "result": [{"metric": {}, "value": [QUERIED_AT, str(pods)]}]}


def prometheus(*result: dict[str, Any]) -> web.RouteDef:
    """Return the route of a server with these series."""

    async def answer(request: web.Request) -> web.Response:
        form = await request.post()
        if form["query"] == QUERY_PODS:
            data = clock(1)
        else:
            assert form["query"] in (QUERY, QUERY_DURATIONS, QUERY_DEVICES)
            assert float(str(form["time"])) == QUERIED_AT
            known = list(result) if form["query"] == QUERY else []
            data = {"resultType": "matrix", "result": known}
        return web.json_response({"status": "success", "data": data})

    return web.post("/prefix/api/v1/query", answer)


async def read(*result: dict[str, Any], pods: Any = None) -> PoolSignals:
    """Read one pool from a server with these series."""
    async with serving(prometheus(*result), port=19090) as ip, new_session() as session:
        url = f"http://{ip}:19090/prefix/"
        signals = await read_prometheus(
            session, url, {"pool": ("team", pods or [pod_object("uid-1", IP)])}
        )
    return signals["pool"]


async def test_every_scrape_in_range_is_a_sample_with_the_time_of_prometheus() -> None:
    signals = await read(*pod_series())
    assert signals.queried_at == QUERIED_AT
    assert signals.url.endswith(":19090/prefix/")
    assert [(each.uid, each.time, each.waiting) for each in signals.samples] == [
        ("uid-1", QUERIED_AT - 11, 3.0),
        ("uid-1", QUERIED_AT - 6, 3.0),
        ("uid-1", QUERIED_AT - 1, 3.0),
    ]


@pytest.mark.parametrize(
    "labels",
    [
        {"instance": "10.9.9.9:8001"},
        {"instance": f"{IP}:8000"},
        {"namespace": "other"},
        {"instance": "nonsense"},
    ],
)
async def test_series_of_unverified_pods_are_left_out(labels: dict[str, str]) -> None:
    assert (await read(*pod_series(**labels))).samples == ()


async def test_series_of_an_earlier_pod_at_the_same_address_are_left_out() -> None:
    assert (await read(*pod_series(uid="the-pod-before"))).samples == ()
    assert (await read(series("penstock_requests_waiting", "3"))).samples == ()


async def test_an_epoch_of_any_length_leaves_the_other_values() -> None:
    epoch = series("penstock_generation_curve_total", "1", term="1*1", epoch="9" * 5000)
    signals = await read(*pod_series(), epoch)
    assert [each.generation for each in signals.samples] == [None] * 3


async def test_a_pod_on_the_host_network_is_left_out() -> None:
    shared = replace(pod_object("uid-1", IP), host_network=True)
    assert (await read(*pod_series(), pods=[shared])).samples == ()


async def test_a_pod_scraped_by_two_jobs_counts_once() -> None:
    signals = await read(*pod_series(), *pod_series(job="another"))
    assert len(signals.samples) == 3
    assert signals.samples[-1].waiting == 3.0


async def test_invalid_values_and_malformed_series_are_left_out() -> None:
    signals = await read(
        *pod_series(),
        series("penstock_requests_running", "NaN"),
        {"metric": {}, "values": None},
        {"metric": {"namespace": "team", "instance": f"{IP}:8001"}, "values": [[1]]},
    )
    assert signals.samples[-1].waiting == 3.0
    assert signals.samples[-1].running is None


async def redirect(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/")


async def not_json(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>")


async def unlike(_: web.Request) -> web.StreamResponse:
    return web.json_response(["success"])


async def no_number(_: web.Request) -> web.StreamResponse:
    return web.json_response({"status": "success", "data": {"result": []}})


async def nested(_: web.Request) -> web.StreamResponse:
    return web.Response(text="[" * 1_000_000)


async def no_time(_: web.Request) -> web.StreamResponse:
    return web.json_response({"status": "success", "data": {"result": [{"value": [0, "NaN"]}]}})


async def overloaded(_: web.Request) -> web.StreamResponse:
    body = {"status": "error", "errorType": "unavailable", "error": "query timed out"}
    return web.json_response(body, status=503)


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(80):
        await response.write(b" " * 1024 * 1024)
    return response


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (redirect, "responded 302: redirects are not followed"),
        (not_json, "did not respond with JSON"),
        (nested, "did not respond with JSON"),
        (no_time, "did not return its time and a number of pods"),
        (unlike, "returned no valid query result"),
        (no_number, "did not return its time and a number of pods"),
        (overloaded, "responded 503: query timed out"),
        (endless, "responded with more than 67108864 bytes"),
    ],
)
async def test_the_problem_of_a_failed_server_is_reported_and_the_pods_are_read(
    handler: Handler, problem: str
) -> None:
    assert problem in await problem_with(handler)


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_never_answers_is_reported_and_the_pods_are_read() -> None:
    assert "did not respond within 2 s" in await problem_with(never)


async def problem_with(handler: Handler) -> str:
    """Return the problem of a server with this handler; the pods are read instead."""
    async with (
        serving(web.post("/api/v1/query", handler), port=19090) as server,
        serving(metrics_route(Figures("uid-1", waiting=4))) as ip,
        new_session() as session,
    ):
        url = f"http://{server}:19090"
        with pytest.raises(CallFailed, match="Prometheus"):
            await read_prometheus(session, url, {})
        pool = PoolPods("pool", "team", (pod_object("uid-1", ip),), MetricsServer(url))
        signals = (await observe_signals(session, [pool], 5_000.0, SharedQueries()))["pool"]
    assert signals.source is SignalSource.PODS
    assert [each.waiting for each in signals.samples] == [4.0]
    return signals.problem


async def test_only_pools_without_fresh_samples_are_read_from_their_pods() -> None:
    async with (
        serving(prometheus(*pod_series()), port=19090) as server,
        serving(metrics_route(Figures("uid-2", waiting=4))) as ip,
        new_session() as session,
    ):
        url = f"http://{server}:19090/prefix"
        pools = [
            PoolPods("covered", "team", (pod_object("uid-1", IP),), MetricsServer(url)),
            PoolPods("missing", "team", (pod_object("uid-2", ip),), MetricsServer(url)),
            PoolPods("unconfigured", "team", (pod_object("uid-2", ip),), None),
        ]
        signals = await observe_signals(session, pools, 5_000.0, SharedQueries())
    assert signals["covered"].source is SignalSource.PROMETHEUS
    assert signals["covered"].problem == ""
    assert signals["missing"].source is SignalSource.PODS
    assert signals["missing"].problem == (
        "Prometheus has no sample under 10 s old, or scrapes less often than every 5 s: chat-uid-2"
    )
    assert (signals["unconfigured"].source, signals["unconfigured"].problem) == (
        SignalSource.PODS,
        "no Prometheus is configured",
    )


async def test_late_samples_are_used_if_no_pod_answers() -> None:
    ip = free_address()
    late = [
        {**each, "values": [[time - 10, value] for time, value in each["values"]]}
        for each in pod_series(instance=f"{ip}:8001")
    ]
    async with serving(prometheus(*late), port=19090) as server, new_session() as session:
        url = f"http://{server}:19090/prefix"
        pool = PoolPods("pool", "team", (pod_object("uid-1", ip),), MetricsServer(url))
        signals = (await observe_signals(session, [pool], 5_000.0, SharedQueries()))["pool"]
    assert signals.source is SignalSource.PROMETHEUS
    assert max(sample.time for sample in signals.samples) == QUERIED_AT - 11
    assert "no sample under 10 s old" in signals.problem
    assert "1 Ready pod: /metrics is unreachable" in signals.problem


async def test_a_server_that_scrapes_every_10_s_leaves_the_pods_the_source() -> None:
    """It has one scrape in the range at every second tick, and two at the others."""
    fallback, seen = Fallback(), list[tuple[SignalSource, str]]()
    async with serving(metrics_route(Figures("uid-1"))) as ip, new_session() as session:
        both = pod_series(instance=f"{ip}:8001")
        newest = [{**each, "values": each["values"][-1:]} for each in both]
        for tick in range(8):
            route = prometheus(*(both if tick % 2 else newest))
            async with serving(route, port=19090) as server:
                url = MetricsServer(f"http://{server}:19090/prefix")
                pool = PoolPods("pool", "team", (pod_object("uid-1", ip),), url, fallback)
                now = 5_000.0 + 5 * tick
                signals = (await observe_signals(session, [pool], now, SharedQueries()))["pool"]
            seen.append((signals.source, signals.problem))
    assert [source for source, _ in seen[:2]] == [SignalSource.PODS, SignalSource.PROMETHEUS]
    assert seen[2:] == [(SignalSource.PODS, RECURRING_GAPS)] * 6


def test_gaps_that_recur_hold_the_pods_until_there_was_none_for_a_minute() -> None:
    fallback = Fallback()
    assert [fallback.update(gap, 5.0 * i) for i, gap in enumerate(["a", "a", "", ""])] == [
        "a", "a", "", "",
    ]  # fmt: skip
    assert fallback.update("a", 20.0) == RECURRING_GAPS
    assert fallback.update("", 20.0 + HOLD_SECONDS - 5) == RECURRING_GAPS
    assert fallback.update("", 20.0 + HOLD_SECONDS) == ""


def test_a_server_that_fails_for_long_is_named_though_its_gaps_recurred() -> None:
    fallback = Fallback()
    for second, gap in enumerate(["a", "", "a"]):
        fallback.update(gap, float(second))
    assert fallback.update("unreachable", 30.0) == RECURRING_GAPS
    assert fallback.update("unreachable", 90.0) == "unreachable"
    assert fallback.update("", 1.0) == "", "the clock stepped back"


async def test_signals_are_absent_if_nothing_answers() -> None:
    async with new_session() as session:
        pool = PoolPods(
            "pool",
            "team",
            (pod_object("uid-1", free_address()),),
            MetricsServer(f"http://{free_address()}:1"),
        )
        signals = (await observe_signals(session, [pool], 5_000.0, SharedQueries()))["pool"]
    assert signals.source is SignalSource.NONE
    assert signals.samples == ()
    assert "Prometheus at" in signals.problem
    assert "1 Ready pod: /metrics is unreachable" in signals.problem


@pytest.mark.parametrize("url", ["http://", "http://server:99999999", "http://[::1"])
async def test_an_invalid_url_is_an_error(url: str) -> None:
    async with new_session() as session:
        with pytest.raises(CallFailed, match="Prometheus"):
            await read_prometheus(session, url, {})


async def test_a_name_that_does_not_resolve_is_an_error() -> None:
    async with new_session() as session:
        with pytest.raises(CallFailed, match="its name does not resolve"):
            await read_prometheus(session, "http://prometheus.invalid:9090", {})


def signals_of(*times: float) -> PoolSignals:
    samples = tuple(PodSample("uid-1", time, waiting=0.0) for time in times)
    return PoolSignals(SignalSource.PROMETHEUS, samples, queried_at=QUERIED_AT)


@pytest.mark.parametrize(
    ("times", "enough"),
    [
        ((QUERIED_AT - 11, QUERIED_AT - 6, QUERIED_AT - 1), True),
        ((QUERIED_AT - 14, QUERIED_AT - 9.5), True),
        ((QUERIED_AT - 1,), False),
        ((QUERIED_AT - 15, QUERIED_AT - 11), False),
        ((), False),
    ],
)
def test_two_scrapes_in_fifteen_seconds_and_one_in_ten_suffice(
    times: tuple[float, ...], enough: bool
) -> None:
    """A server that scrapes every 15 s or 60 s has one scrape or none, so the pods are read."""
    assert (missing(signals_of(*times), [pod_object("uid-1", IP)], 9_000.0) == []) is enough


def test_a_pod_that_is_just_ready_is_not_missing() -> None:
    assert missing(signals_of(), [pod_object("uid-1", IP, ready_since=8_990.0)], 9_000.0) == []
    assert missing(signals_of(), [pod_object("uid-1", IP, ready=False)], 9_000.0) == []


def test_one_query_serves_all_pools() -> None:
    assert QUERY.endswith("}[15s]")
    assert json.dumps(QUERY).count("penstock_requests_waiting") == 1
