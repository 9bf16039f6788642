"""Pools with names that Envoy or the gateway's own parts have."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock_gateway.envoy_admin import EnvoyAdmin
from tests.support.gateway.api_server import service
from tests.support.gateway.stack import Stack
from tests.unit.gateway.envoy.conftest import RunningGateway

PORT = 10002


@asynccontextmanager
async def with_pool(gateway: RunningGateway, name: str) -> AsyncIterator[Stack]:
    """Run a gateway with the pools `demo` and `name`, each with a pod."""
    async with gateway() as running:
        await running.api.put("services", service(name, PORT))
        await running.start_pod("pod-7", pool=name)
        await running.until_endpoints(1, name)
        yield running


@pytest.mark.parametrize("name", ["admin", "penstock-ads"])
async def test_the_requests_of_a_pool_reach_its_own_pods(
    gateway: RunningGateway, name: str
) -> None:
    async with with_pool(gateway, name) as running:
        async with running.client.post(running.url("/infer", PORT), data=b"a") as answer:
            assert answer.status == 200
        assert await running.pod_reply("pod-7", "/seen") == {"/infer": 1}
        await running.until_status(lambda status: status["pools"][name]["offered"] == 1)


async def test_the_counts_of_a_pool_have_no_calls_of_the_admin_interface(
    gateway: RunningGateway,
) -> None:
    async with with_pool(gateway, "admin") as running:
        admin = EnvoyAdmin(running.folder / "admin.sock")
        try:
            assert await admin.active_requests() == 0
            assert (await admin.cluster_load("admin")).answered == 0
            async with running.client.get(running.url("/events?count=1000&ms=100", PORT)) as stream:
                await stream.content.readline()
                assert await admin.active_requests() == 1
                load = await admin.cluster_load("admin")
                assert (load.requests, load.healthy, load.answered) == (1, 1, 1)
                in_flight = {
                    name: pool["inFlight"]
                    for name, pool in (await running.status())["pools"].items()
                }
                assert in_flight == {"admin": 1, "demo": 0}
        finally:
            await admin.close()


async def test_a_drain_waits_for_the_streams_of_a_pool_with_the_name_of_the_admin_interface(
    gateway: RunningGateway,
) -> None:
    async with with_pool(gateway, "admin") as running:
        assert running.controller is not None
        async with running.client.get(running.url("/events?count=20&ms=100", PORT)) as stream:
            await stream.content.readline()
            running.controller.send_signal(signal.SIGTERM)
            assert "data: 19" in await stream.text()
        assert await asyncio.wait_for(running.controller.wait(), 60) == 0
