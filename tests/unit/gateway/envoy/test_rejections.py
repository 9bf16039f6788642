"""A configuration that Envoy rejects concerns its pool alone, and is visible."""

import socket

import aiohttp

from tests.support.gateway.api_server import service
from tests.support.gateway.stack import Stack
from tests.unit.gateway.envoy.conftest import RunningGateway


async def answers(stack: Stack, port: int) -> bool:
    """Return whether a pool's listener answers."""
    try:
        async with stack.client.post(stack.url("/infer", port)) as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


async def test_a_rejected_listener_leaves_the_last_good_one_and_the_other_pools(
    gateway: RunningGateway,
) -> None:
    async with gateway(pods=1) as stack:
        with socket.create_server((stack.host, 10009)):  # a port that Envoy cannot bind
            await stack.api.put("services", service("demo", 10009))
            await stack.api.put("services", service("other", 10002))
            await stack.start_pod("pod-1", pool="other")
            await stack.until_endpoints(1, "other")
            status = await stack.until_status(
                lambda status: status["pools"]["demo"]["resources"]["Listener"] == "Rejected"
            )
            (rejection,) = status["pools"]["demo"]["rejections"]
            assert rejection["resource"] == "Listener"
            assert "10009" in rejection["message"]
            assert status["ready"]
            assert await answers(stack, 10001)
            assert await answers(stack, 10002)
            rejected = 'penstock_gateway_rejected_resources{kind="Listener",pool="demo"} 1.0'
            assert rejected in await stack.metrics()
        await stack.api.put("services", service("demo", 10003))
        await stack.until_endpoints(1)
        assert await answers(stack, 10003)
        assert rejected not in await stack.metrics()


async def test_a_gateway_is_ready_although_a_pools_first_listener_is_rejected(
    gateway: RunningGateway,
) -> None:
    async with gateway(pods=1) as stack:
        with socket.create_server((stack.host, 10009)):
            await stack.api.put("services", service("bad", 10009))
            await stack.until_status(lambda status: bool(status["pools"]["bad"]["rejections"]))
            assert stack.envoy is not None
            stack.envoy.kill()
            await stack.envoy.wait()
            await stack.until_status(lambda status: not status["ready"])
            await stack.start_envoy()
            await stack.until_ready()
            assert await answers(stack, 10001)


async def test_a_removed_pools_listener_goes(gateway: RunningGateway) -> None:
    async with gateway(pods=1, PENSTOCK_DRAIN_SECONDS="1") as stack:
        await stack.api.delete("services", "demo")
        await stack.until_status(lambda status: not status["pools"])
        while await answers(stack, 10001):
            pass
