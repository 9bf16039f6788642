"""How the server behind the hold listener reads a request's headers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from penstock_api.hold import HoldLimits
from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.hold.holder import Holder
from penstock_gateway.hold.queue import HeldRequest
from penstock_gateway.hold.server import READ_BYTES, HoldServer
from penstock_gateway.hold.server import holding as serving
from penstock_gateway.snapshot import Route
from penstock_gateway.telemetry import _holding

NOW = 1000.0
LIMITS = HoldLimits(max_seconds=60, max_requests=100, per_pod=2)


@asynccontextmanager
async def holding(pods: int = 0, clock: float = NOW) -> AsyncIterator[Holder]:
    """Yield what holds the requests of pool `demo`, which has this many pods in force."""
    admin = EnvoyAdmin(Path("unused"))
    holder = Holder(admin, lambda _: pods, lambda _: 0, lambda: NOW, lambda: clock)
    holder.update({"demo": Route("demo", 10001, (), hold=LIMITS)})
    yield holder
    await admin.close()


async def in_order(*requests: Mapping[str, str]) -> list[HeldRequest]:
    """Hold POST requests with these headers, and return them in the order of their release."""
    async with holding() as holder, asyncio.TaskGroup() as tasks:
        server, queue = HoldServer(holder), holder.queue("demo")
        assert queue is not None
        posts = [make_mocked_request("POST", "/infer", headers=each) for each in requests]
        waiting = [tasks.create_task(server.handle(post)) for post in posts]
        await asyncio.sleep(0)  # in which each comes to be held
        order = sorted(queue.requests.values())
        for task in waiting:
            task.cancel()
    return order


async def test_batch_work_waits_for_every_other_request_and_the_default_is_the_lowest_class() -> (
    None
):
    claimed = ["11", "4000000", "", "10", "0", "none", "9", "1"]
    mark = {"X-Penstock-Held": "demo 990.000 "}
    order = await in_order(*({**mark, "X-Penstock-Priority": each} for each in claimed))
    expected = ["1", "9", "", "10", "0", "none", "11", "4000000"]
    assert [claimed[request.number] for request in order] == expected


async def test_a_request_is_held_since_the_hold_listener_received_it_or_else_since_now() -> None:
    mark = {"X-Penstock-Held": "demo 100.500 "}
    since = ("999.250", "1000.001", "-1", "")
    order = await in_order(*({**mark, "X-Penstock-Held-Since": each} for each in since))
    assert [request.entered for request in order] == [999.25, NOW, NOW, NOW]
    assert {request.arrived for request in order} == {100.5}


async def test_each_end_of_a_hold_is_counted_from_zero() -> None:
    async with holding() as holder:
        ends = [sample for family in _holding(holder) for sample in family.samples]
        counted = {sample.labels["end"]: sample.value for sample in ends if "end" in sample.labels}
    assert counted == dict.fromkeys(
        ("Released", "HoldFull", "HoldExpired", "DeadlinePassed", "PoolGone"), 0
    )


@pytest.mark.parametrize(
    ("pool", "pods", "final"), [("demo", 0, True), ("demo", 1, False), ("other", 0, False)]
)
async def test_a_get_is_retried_only_where_another_pod_may_take_it(
    pool: str, pods: int, final: bool
) -> None:
    async with holding(pods) as holder:
        get = make_mocked_request("GET", "/v1/models", headers={"X-Penstock-Held": f"{pool} 9.0 "})
        answer = await HoldServer(holder).handle(get)
    assert (answer.status, "x-envoy-ratelimited" in answer.headers) == (503, final)


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
async def test_a_clock_that_is_set_moves_no_held_request(step: float) -> None:
    """Envoy's marks are of the clock after the step; the holder's own clock goes on."""
    async with holding(clock=NOW + step) as holder:
        assert holder.time_of(NOW + step - 2.5) == NOW - 2.5
        assert holder.time_of(NOW + step + 1.0) == NOW
        assert holder.time_of(None) == NOW


async def test_requests_of_a_deleted_pool_are_marked_and_those_of_one_that_comes_back_are_not() -> (
    None
):
    async with holding() as holder, asyncio.TaskGroup() as tasks:
        queue = holder.queue("demo")
        assert queue is not None
        post = make_mocked_request("POST", "/infer", headers={"X-Penstock-Held": "demo 1.0 "})
        waiting = tasks.create_task(HoldServer(holder).handle(post))
        await asyncio.sleep(0)
        holder.update({}, frozenset())
        assert queue.gone_at is None
        holder.update({}, frozenset({"demo"}))
        assert queue.gone_at == NOW
        holder.update({"demo": Route("demo", 10001, (), hold=LIMITS)})
        assert queue.gone_at is None
        waiting.cancel()


async def test_a_connection_receives_a_few_kib_of_a_body_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Envoy keeps the body; what the server receives of it is memory of the controller."""
    received: list[int] = []

    async def handle(_: HoldServer, request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(0.2)
        received.append(request.content.total_bytes)
        return web.Response(status=503)

    monkeypatch.setattr(HoldServer, "handle", handle)
    socket = tmp_path / "hold"
    async with (
        holding() as holder,
        serving(holder, socket),
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as client,
        client.post("http://envoy/infer", data=b"x" * 2**19) as answer,
    ):
        assert answer.status == 503
    assert 0 < received[0] <= 4 * READ_BYTES
