"""What is lost when pods go and come, when one dies, and when the gateway's controller is away: nothing."""

import asyncio
import signal

import pytest

from tests.support.gateway.api_server import pod
from tests.support.gateway.load import load
from tests.support.gateway.stack import Stack, kill
from tests.unit.gateway.envoy.conftest import RunningGateway

LARGE = b"x" * (2 * 2**20)
"""Larger than a connection's buffer."""


async def retries(stack: Stack) -> float:
    """Return how many requests Envoy sent again."""
    return await stack.envoy_metric("envoy_cluster_upstream_rq_retry", pool="demo")


async def peaks(stack: Stack) -> list[int]:
    """Return the most requests that were in flight at a time, for each pod, since the last call."""
    return [await stack.pod_reply(name, "/peak") for name in sorted(stack.pods)]


async def test_every_request_goes_to_the_pod_with_the_least_in_flight(
    gateway: RunningGateway,
) -> None:
    async with gateway(pods=3) as stack:
        async with load(stack.url(), clients=3) as tally:
            await stack.until(lambda: len(tally.by_pod) == 3)
            await peaks(stack)  # before Envoy knew all three, one had more than its share
            await stack.until_more(lambda: tally.answered, 300)
        assert tally.lost == []
        # with as many clients as pods, random choices leave one pod idle and another with two or three requests
        assert sum(await peaks(stack)) <= 5
        assert max(tally.by_pod.values()) <= 1.15 * tally.answered / 3


async def test_a_slow_pod_gets_as_many_requests_as_it_answers(gateway: RunningGateway) -> None:
    async with gateway(pods=2) as stack:
        await stack.start_pod("pod-2", slowness=10)
        await stack.until_endpoints(3)
        async with load(stack.url(), clients=12, delay_ms=50) as tally:
            await stack.until(lambda: tally.answered >= 400)
        assert tally.lost == []
        assert tally.by_pod["pod-2"] < tally.answered / 6  # a turn for each pod gives it a third


async def test_a_deleted_pod_gets_no_request_more_and_loses_none_without_a_retry(
    gateway: RunningGateway,
) -> None:
    async with gateway(pods=2) as stack:
        async with load(stack.url()) as tally:
            await stack.until(lambda: len(tally.by_pod) == 2)
            leaving = pod("pod-0", "demo", stack.address("pod-0"), deleting=True)
            await stack.api.put("pods", leaving)
            await stack.until_endpoints(1)
            stack.pods["pod-0"].send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(stack.pods["pod-0"].wait(), 60) == 0
            await stack.until_more(lambda: tally.answered, 100)
        assert tally.lost == []
        assert await retries(stack) == 0


async def test_a_new_pod_takes_its_share(gateway: RunningGateway) -> None:
    async with gateway(pods=1) as stack, load(stack.url()) as tally:
        await stack.start_pod("pod-1")
        await stack.until(lambda: tally.by_pod["pod-1"] >= 50)
        assert tally.lost == []


@pytest.mark.parametrize("body", [b"{}", LARGE], ids=["small", "large"])
async def test_a_killed_pods_requests_are_answered_by_others(
    gateway: RunningGateway, body: bytes
) -> None:
    async with (
        gateway(pods=3) as stack,
        load(stack.url(), clients=9, delay_ms=500, body=body) as tally,
    ):
        await stack.until(lambda: len(tally.by_pod) == 3)
        await kill(stack.pods["pod-0"])
        await stack.until_more(lambda: tally.answered, 200)  # long after its first ejection
        assert tally.lost == []
        assert await retries(stack) > 0


async def test_three_of_four_pods_that_die_at_once_lose_no_request(
    gateway: RunningGateway,
) -> None:
    async with (
        gateway(pods=4) as stack,
        load(stack.url(), clients=12, delay_ms=100) as tally,
    ):
        await stack.until(lambda: len(tally.by_pod) == 4)
        await asyncio.gather(*(kill(stack.pods[f"pod-{number}"]) for number in range(3)))
        await stack.until_more(lambda: tally.answered, 200)  # the API server still lists them
        assert tally.lost == []


async def test_a_killed_controller_and_an_absent_api_server_change_nothing(
    gateway: RunningGateway,
) -> None:
    async with gateway(pods=2) as stack, load(stack.url()) as tally:
        await kill(stack.controller)
        await stack.api.stop()
        await stack.start_controller()
        await stack.until(lambda: "stay in force" in stack.log("controller"))
        await stack.until_more(lambda: tally.answered, 100)
        assert await stack.is_ready()
        await stack.start_pod("pod-2")
        await stack.api.start()
        await stack.until(lambda: tally.by_pod["pod-2"] >= 20)
        assert tally.lost == []
        await stack.until_ready()


async def test_a_pool_without_pods_answers_503_until_one_is_ready(gateway: RunningGateway) -> None:
    async with gateway(pods=0) as stack:
        async with stack.client.post(stack.url("/infer")) as answer:
            assert (answer.status, await answer.text()) == (503, "no healthy upstream")
        await stack.start_pod("pod-0")
        await stack.until_endpoints(1)
        async with stack.client.post(stack.url("/infer")) as answer:
            assert answer.status == 200
