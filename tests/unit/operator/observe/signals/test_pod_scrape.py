"""Signals from the pods, over real sockets."""

import time

import pytest
from aiohttp import web

from penstock_api import names
from penstock_operator.net.http import new_session
from penstock_operator.net.pod_calls import POOL_CALLS
from penstock_operator.observe.signals import samples
from penstock_operator.observe.signals.pod_scrape import read_pods
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import SignalSource
from tests.unit.operator.observe.signals.exporter import (
    Figures,
    free_address,
    metrics_route,
    never,
    pod_object,
    serving,
)

NOW = 1_000_000.0


async def test_each_pod_is_read_at_its_own_address() -> None:
    async with (
        serving(metrics_route(Figures("uid-1", waiting=3))) as first,
        serving(metrics_route(Figures("uid-2", waiting=5))) as second,
        new_session() as session,
    ):
        began = time.monotonic()
        signals = await read_pods(
            session, [pod_object("uid-1", first), pod_object("uid-2", second)], NOW
        )
        took = time.monotonic() - began
    assert signals.source is SignalSource.PODS
    assert {sample.uid: sample.waiting for sample in signals.samples} == {"uid-1": 3, "uid-2": 5}
    assert all(0 <= sample.time - NOW <= took for sample in signals.samples)
    assert signals.problem == ""


async def test_the_answer_of_another_pod_is_a_problem() -> None:
    async with serving(metrics_route(Figures("old-uid"))) as ip, new_session() as session:
        signals = await read_pods(session, [pod_object("uid-1", ip)], NOW)
    assert signals.source is SignalSource.NONE
    assert signals.problem == "1 Ready pod: /metrics was served by another pod"


async def redirect(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/metrics"})


async def huge(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"#" * 2_000_000)


async def binary(_: web.Request) -> web.Response:
    return web.Response(body=b"\xff\xfe\x00")


async def garbage(_: web.Request) -> web.Response:
    return web.Response(text="penstock_requests_waiting{ 3")


async def too_long(_: web.Request) -> web.Response:
    return web.Response(
        text=Figures("uid-1").text() + f'{names.METRIC_POD_INFO}{{a="{"9" * 5000}"}} 1'
    )


async def failing(_: web.Request) -> web.Response:
    return web.Response(status=500)


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (redirect, "responded 302: redirects are not followed"),
        (huge, "responded with more than 1048576 bytes"),
        (binary, "returned something that is not text"),
        (garbage, "did not respond in the Prometheus text format"),
        (too_long, "responded with more text than the metrics of a pod have"),
        (failing, "responded 500"),
    ],
)
async def test_an_unusable_answer_is_a_problem(handler: web.RequestHandler, problem: str) -> None:
    route = web.get(names.PATH_METRICS, handler)  # type: ignore[arg-type]
    async with serving(route) as ip, new_session() as session:
        signals = await read_pods(session, [pod_object("uid-1", ip)], NOW)
    assert signals.source is SignalSource.NONE
    assert signals.problem == f"1 Ready pod: /metrics {problem}"


async def test_values_that_no_pod_has_are_a_problem_of_that_pod_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def not_understood(*_: object) -> None:
        raise TypeError("not what a pod answers")

    monkeypatch.setattr(samples, "_settled", not_understood)
    async with serving(metrics_route(Figures("uid-1"))) as ip, new_session() as session:
        signals = await read_pods(session, [pod_object("uid-1", ip)], NOW)
    assert signals.problem == "1 Ready pod: /metrics responded with values that no pod has"


@pytest.mark.usefixtures("impatient")
async def test_a_pod_that_never_answers_is_a_problem_after_the_timeout() -> None:
    route = web.get(names.PATH_METRICS, never)
    async with serving(route) as ip, new_session() as session:
        signals = await read_pods(session, [pod_object("uid-1", ip)], NOW)
    assert signals.source is SignalSource.NONE
    assert signals.problem == "1 Ready pod: /metrics did not respond within 2 s"


async def test_one_silent_pod_does_not_hide_the_others() -> None:
    async with serving(metrics_route(Figures("uid-1"))) as ip, new_session() as session:
        pods = [pod_object("uid-1", ip), pod_object("uid-2", free_address())]
        signals = await read_pods(session, pods, NOW, problem="no Prometheus is configured")
    assert signals.source is SignalSource.PODS
    assert [sample.uid for sample in signals.samples] == ["uid-1"]
    assert signals.problem.startswith(
        "no Prometheus is configured; 1 Ready pod: /metrics is unreachable"
    )


@pytest.mark.usefixtures("impatient")
async def test_silent_pods_of_one_pool_hide_no_pod_of_another() -> None:
    called = 0

    async def silent(request: web.Request) -> web.Response:
        nonlocal called
        called += 1
        return await never(request)

    async with (
        serving(web.get(names.PATH_METRICS, silent)) as nowhere,
        serving(metrics_route(Figures("uid-1"))) as ip,
        new_session() as session,
    ):
        many = tuple(pod_object(f"silent-{i}", nowhere) for i in range(300))
        gone = PoolPods("gone", "team-a", many, None)
        well = [PoolPods(f"well-{i}", "b", (pod_object("uid-1", ip),), None) for i in range(20)]
        signals = await observe_signals(session, [gone, *well], NOW, SharedQueries())
    problems = {signals[pool.uid].problem for pool in well}
    assert problems == {"no Prometheus is configured"}
    assert "300 Ready pods: /metrics did not respond within 2 s" in signals["gone"].problem
    assert called <= 2 * POOL_CALLS


async def test_pods_that_load_or_have_no_address_are_no_problem() -> None:
    async with new_session() as session:
        pods = [
            pod_object("uid-1", None),
            pod_object("uid-2", free_address(), ready=False),
        ]
        signals = await read_pods(session, pods, NOW)
    assert signals.source is SignalSource.PODS
    assert (signals.samples, signals.problem) == ((), "")


async def test_a_hundred_pods_are_read_concurrently() -> None:
    figures = [Figures(f"uid-{i}", waiting=i) for i in range(100)]
    async with new_session() as session:
        servers = [serving(metrics_route(each)) for each in figures]
        addresses = [await server.__aenter__() for server in servers]
        pods = [pod_object(f"uid-{i}", ip) for i, ip in enumerate(addresses)]
        signals = await read_pods(session, pods, NOW)
        for server in servers:
            await server.__aexit__(None, None, None)
    assert len(signals.samples) == 100


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://{free_address()}:1")
    async with serving(metrics_route(Figures("uid-1"))) as ip, new_session() as session:
        signals = await read_pods(session, [pod_object("uid-1", ip)], NOW)
    assert signals.source is SignalSource.PODS
