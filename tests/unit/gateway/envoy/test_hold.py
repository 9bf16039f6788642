"""Requests of a pool without pods wait for one, in order, and none is lost whatever ends meanwhile."""

import asyncio
import io
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from penstock_api import names
from penstock_api.hold import HoldLimits
from tests.support.gateway import api_server
from tests.support.gateway.api_server import Json
from tests.support.gateway.load import load
from tests.support.gateway.stack import Stack, kill, stack

Headers = Mapping[str, str] | None


def held_service(**limits: int) -> Json:
    """Return the Service of pool `demo`, whose requests are held."""
    item = api_server.service("demo", 10001)
    hold = HoldLimits(**{"max_seconds": 60, "max_requests": 1000, "per_pod": 128, **limits})
    item["metadata"]["annotations"][names.ANNOTATION_GATEWAY_HOLD] = hold.as_annotation()
    return item


@asynccontextmanager
async def at_zero(**limits: int) -> AsyncIterator[Stack]:
    """Run a gateway with pool `demo` held and without pods, until it is ready."""
    async with stack() as gateway:
        await gateway.api.put("services", held_service(**limits))
        await asyncio.gather(gateway.start_controller(), gateway.start_envoy())
        await gateway.until_ready()
        await gateway.until_endpoints(0)
        yield gateway


@dataclass(slots=True)
class Clients:
    """Requests that were sent at once, each on a connection of its own."""

    gateway: Stack
    answers: list[tuple[int, int, float, Any]] = field(default_factory=list)
    """Number, status, time of the first byte and body of each answer, in the order of their arrival."""
    places: dict[int, int] = field(default_factory=dict)
    """By number of the request, its place in the order in which the pod received them."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def send(self, number: int, body: bytes = b"{}", ms: int = 20, headers: Headers = None) -> None:
        """Send a request."""
        self.tasks.append(asyncio.create_task(self._send(number, body, ms, headers or {})))

    async def send_held(self, count: int, body: bytes = b"{}") -> None:
        """Send this many requests, and wait until the gateway holds them."""
        for number in range(count):
            self.send(number, body)
        await self.held(count)

    async def _send(self, number: int, body: bytes, ms: int, headers: Mapping[str, str]) -> None:
        url = self.gateway.url(f"/infer?ms={ms}")
        limits = aiohttp.ClientTimeout(total=120)
        async with (
            aiohttp.ClientSession(timeout=limits) as session,
            session.post(url, data=io.BytesIO(body), headers=headers) as answer,
        ):
            at = time.monotonic()
            self.places[number] = int(answer.headers.get("X-Place", 0))
            self.answers.append((number, answer.status, at, await answer.json()))

    async def held(self, count: int) -> None:
        """Wait until the gateway holds this many."""

        def holds(status: dict[str, Any]) -> bool:
            demand = status["pools"]["demo"]["held"]
            return (demand["requests"] if demand else 0) == count

        await self.gateway.until_status(holds)

    async def end(self) -> list[int]:
        """Wait for all answers, and return their statuses."""
        await asyncio.gather(*self.tasks)
        return [status for _, status, _, _ in self.answers]


async def test_held_requests_are_answered_when_a_pod_comes() -> None:
    async with at_zero() as gateway:
        clients = Clients(gateway)
        await clients.send_held(200)
        await gateway.start_pod("pod-0")
        assert await clients.end() == [200] * 200


async def test_the_parts_of_a_start_add_up_to_the_wait_of_the_first_request() -> None:
    async with at_zero() as gateway:
        clients = Clients(gateway)
        began = time.monotonic()
        clients.send(0, ms=300)
        await clients.held(1)
        assert (await gateway.status())["pools"]["demo"]["lastStart"] is None
        item = api_server.pod("pod-0", "demo", gateway.address("pod-0"), ready=False)
        await gateway.api.put("pods", item)
        await gateway.start_pod("pod-0")
        assert await clients.end() == [200]
        waited = clients.answers[0][2] - began
        status = await gateway.until_status(lambda known: known["pools"]["demo"]["lastStart"])
        seconds = status["pools"]["demo"]["lastStart"]["seconds"]
        assert list(seconds) == [
            "Decision",
            "Scheduling",
            "Container",
            "Model",
            "Endpoint",
            "FirstByte",
        ]
        assert seconds["FirstByte"] >= 0.3
        assert sum(seconds.values()) == pytest.approx(waited, abs=3)
        assert (
            'penstock_gateway_start_seconds_count{part="FirstByte",pool="demo"} 1.0'
            in await gateway.metrics()
        )


async def test_held_requests_are_released_by_class_and_arrival() -> None:
    async with at_zero(per_pod=4) as gateway:
        clients = Clients(gateway)
        classes = {"": 40, "2": 20, "1": 0}  # the first to come has no class, the last the highest
        for priority, first in classes.items():
            for number in range(first, first + 20):
                headers = {"X-Penstock-Priority": priority} if priority else {}
                clients.send(number, ms=100, headers=headers)
                await clients.held(len(clients.tasks))
        await gateway.start_pod("pod-0")
        await clients.end()
        order = sorted(clients.places, key=clients.places.__getitem__)
        # of those that are in flight at a time, any may arrive first
        assert all(abs(number - place) <= 8 for place, number in enumerate(order)), order


async def test_a_killed_controller_loses_no_held_request() -> None:
    async with at_zero() as gateway:
        clients = Clients(gateway)
        await clients.send_held(100)
        await kill(gateway.controller)
        await gateway.api.stop()
        clients.send(100)
        await gateway.start_controller()
        await gateway.until(lambda: "stay in force" in gateway.log("controller"))
        await asyncio.sleep(1)  # in which a controller that knows no pool would refuse them all
        await gateway.api.start()
        await clients.held(101)
        await gateway.start_pod("pod-0")
        assert await clients.end() == [200] * 101


async def test_requests_of_a_pool_that_cannot_be_routed_any_longer_are_held_and_released() -> None:
    async with at_zero() as gateway:
        clients = Clients(gateway)
        await clients.send_held(1)
        unroutable = held_service()
        unroutable["metadata"]["annotations"][names.ANNOTATION_GATEWAY_PORT] = "http"
        await gateway.api.put("services", unroutable)
        await gateway.until_status(lambda status: "demo" in status["unroutableServices"])
        clients.send(1)
        await asyncio.sleep(0.5)  # in which a controller without the pool would refuse it
        await gateway.start_pod("pod-0")
        assert await clients.end() == [200] * 2


async def test_a_client_that_leaves_is_forgotten() -> None:
    async with at_zero() as gateway:
        clients = Clients(gateway)
        await clients.send_held(10)
        for task in clients.tasks[:4]:
            task.cancel()
        await clients.held(6)
        await gateway.start_pod("pod-0")
        await asyncio.gather(*clients.tasks, return_exceptions=True)
        assert len(clients.answers) == 6
        assert await gateway.pod_reply("pod-0", "/seen") == {"/infer": 6}


async def test_large_bodies_wait_with_envoy() -> None:
    async with at_zero() as gateway:
        clients = Clients(gateway)
        await clients.send_held(8, body=b"x" * (2 * 2**20))
        await gateway.start_pod("pod-0")
        assert await clients.end() == [200] * 8
        assert {answer["bytes"] for *_, answer in clients.answers} == {2 * 2**20}


async def test_the_last_pod_leaves_and_another_comes_without_loss() -> None:
    async with at_zero() as gateway:
        await gateway.start_pod("pod-0")
        await gateway.until_endpoints(1)
        async with load(gateway.url()) as tally:
            for number in range(3):
                await gateway.until_more(lambda: tally.answered, 50)
                name = f"pod-{number}"
                leaving = api_server.pod(name, "demo", gateway.address(name), deleting=True)
                await gateway.api.put("pods", leaving)
                await gateway.until_endpoints(0)
                gateway.pods[name].send_signal(signal.SIGTERM)
                await gateway.until_status(lambda status: bool(status["pools"]["demo"]["held"]))
                await gateway.start_pod(f"pod-{number + 1}")
            await gateway.until_more(lambda: tally.answered, 50)
        assert tally.lost == []


async def test_a_killed_last_pod_loses_no_request() -> None:
    async with at_zero() as gateway:
        await gateway.start_pod("pod-0")
        await gateway.until_endpoints(1)
        async with load(gateway.url(), delay_ms=100) as tally:
            await gateway.until_more(lambda: tally.answered, 50)
            await kill(gateway.pods["pod-0"])
            await gateway.until_status(lambda status: bool(status["pools"]["demo"]["held"]))
            await asyncio.sleep(2)  # for which its probe still counts it as Ready
            gone = api_server.pod("pod-0", "demo", gateway.address("pod-0"), ready=False)
            await gateway.api.put("pods", gone)
            await gateway.until_endpoints(0)
            await gateway.start_pod("pod-1")
            await gateway.until_more(lambda: tally.answered, 50)
        assert tally.lost == []


async def test_a_request_that_ran_longer_than_the_hold_waits_for_the_next_pod_when_its_pod_dies() -> (
    None
):
    async with at_zero(max_seconds=10) as gateway:
        await gateway.start_pod("pod-1", pool="other")
        await gateway.start_pod("pod-0", slowness=1e6)
        await gateway.until_endpoints(1)
        clients = Clients(gateway)
        clients.send(0)
        await asyncio.sleep(11)
        await kill(gateway.pods["pod-0"])
        gone = api_server.pod("pod-0", "demo", gateway.address("pod-0"), ready=False)
        await gateway.api.put("pods", gone)
        await clients.held(1)
        await gateway.api.put("pods", api_server.pod("pod-1", "demo", gateway.address("pod-1")))
        assert await clients.end() == [200]


START = {str(seconds) for seconds in range(20, 31)}
"""`Retry-After` while a pod starts: 30 s without an earlier start, less the seconds that have passed."""


async def test_requests_beyond_the_bounds_are_refused_with_a_reason() -> None:
    async with at_zero(max_requests=2, max_seconds=3) as gateway:
        clients = Clients(gateway)
        clients.send(0)
        clients.send(1)
        await clients.held(2)
        status, retry, *words = await refusal(gateway, "/v1/completions")
        assert (status, retry in START, *words) == (429, True, "HoldFull", "rate_limit_error")
        async with gateway.client.get(gateway.url("/v2/health/ready")) as answer:
            assert (answer.status, answer.headers["Retry-After"] in START) == (503, True)
        assert await clients.end() == [504, 504]
        assert "no pod was ready within 3 s" in clients.answers[0][3]["error"]
        began = time.monotonic()
        headers = {"X-Request-Timeout-Ms": "100"}
        status, retry, *words = await refusal(gateway, "/v1/completions", **headers)
        assert (status, retry in START, *words) == (504, True, "DeadlinePassed", "server_error")
        assert time.monotonic() - began < 2


async def refusal(gateway: Stack, path: str, **headers: str) -> tuple[int, str, str, str]:
    """Return status, `Retry-After`, reason and type of an answer in OpenAI's shape."""
    async with gateway.client.post(gateway.url(path), headers=headers) as answer:
        body = await answer.json()
        retry = answer.headers["Retry-After"]
        return answer.status, retry, body["reason"], body["error"]["type"]


async def test_demand_is_known_at_once_and_only_by_a_post() -> None:
    async with at_zero() as gateway:
        url = f"http://{gateway.host}:8091{names.PATH_GATEWAY_HELD}"
        async with gateway.client.get(url) as answer:
            known = await answer.json()
        assert known["pools"] == {}
        async with gateway.client.get(gateway.url("/v1/models")) as answer:
            assert answer.status == 503
        waiting = asyncio.create_task(gateway.client.get(url, params={"known": known["version"]}))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        began = time.monotonic()
        clients = Clients(gateway)
        clients.send(0)
        async with await waiting as answer:
            demand = await answer.json()
        assert time.monotonic() - began < 10
        assert demand["pools"]["demo"]["requests"] == 1
        assert demand["version"] != known["version"]
        await gateway.start_pod("pod-0")
        assert await clients.end() == [200]


async def test_a_get_at_zero_is_answered_without_a_retry() -> None:
    async with at_zero() as gateway:
        async with gateway.client.get(gateway.url("/v1/models")) as answer:
            assert answer.status == 503
            assert not [name for name in answer.headers if name.lower().startswith("x-envoy")]
        assert await gateway.envoy_metric("envoy_cluster_upstream_rq_retry", "demo") == 0


async def test_a_pool_that_is_held_no_longer_keeps_its_held_requests() -> None:
    async with at_zero() as gateway:
        clients = Clients(gateway)
        clients.send(0)
        await clients.held(1)
        await gateway.api.put("services", api_server.service("demo", 10001))
        await gateway.until_status(lambda status: not status["pools"]["demo"]["holds"])
        await gateway.until_endpoints(0)
        await gateway.start_pod("pod-0")
        assert await clients.end() == [200]


async def test_a_request_that_was_held_has_only_the_rest_of_its_time_at_the_pod() -> None:
    async with at_zero() as gateway:
        timeouts = {"X-Request-Timeout-Ms": "60000"}
        begin = time.monotonic()
        waiting = [
            asyncio.create_task(gateway.client.post(gateway.url(path), headers=headers))
            for path, headers in (
                ("/echo", timeouts),
                ("/echo", {}),
                ("/echo", {"X-Request-Timeout-Ms": "1e9"}),
            )
        ]
        await Clients(gateway).held(len(waiting))
        await asyncio.sleep(1.5)
        least = (
            60_000 - 1000 * (time.monotonic() - begin) - 20_000
        )  # a start on a busy machine takes some
        await gateway.start_pod("pod-0")
        sent = []
        for task in waiting:
            async with await task as answer:
                assert answer.status == 200
                sent.append((await answer.json())["headers"].get("x-request-timeout-ms"))
        most = 60_000 - 1500
        assert least <= int(sent[0]) <= most
        assert sent[1:] == [None, "1e9"]  # the pod rejects what is no number
        async with gateway.client.post(gateway.url("/echo"), headers=timeouts) as answer:
            direct = (await answer.json())["headers"]
        assert 59_000 <= int(direct["x-request-timeout-ms"]) <= 60_000


@pytest.mark.parametrize("requests", [1, 20])
async def test_requests_wait_while_every_pod_is_dead_and_the_api_server_still_lists_them(
    requests: int,
) -> None:
    async with at_zero() as gateway:
        await gateway.start_pod("pod-0")
        await gateway.start_pod("pod-1")
        await gateway.until_endpoints(2)
        await asyncio.gather(*(kill(process) for process in gateway.pods.values()))
        clients = Clients(gateway)
        for number in range(requests):
            clients.send(number)
        await clients.held(requests)
        await asyncio.sleep(8)  # the first ejection ends after 5 s
        await gateway.start_pod("pod-2")
        assert await clients.end() == [200] * requests
