"""The end of a gateway's pod."""

import asyncio
import random
import re
import signal

import aiohttp
import pytest

from tests.support.gateway.load import load
from tests.support.gateway.stack import Stack, stack
from tests.unit.gateway.envoy.conftest import RunningGateway


async def test_a_drained_gateway_fails_readiness_accepts_and_ends_after_its_last_stream(
    gateway: RunningGateway,
) -> None:
    async with gateway() as running:
        assert running.controller is not None
        assert running.envoy is not None
        async with running.client.get(running.url("/events?count=20&ms=200")) as stream:
            await stream.content.readline()
            running.controller.send_signal(signal.SIGTERM)
            while True:
                async with running.client.get(f"http://{running.host}:8090/readyz") as answer:
                    if answer.status == 503:
                        break
            async with (
                aiohttp.ClientSession() as late,
                late.post(running.url("/infer"), data=b"a") as answer,
            ):
                assert answer.status == 200
                assert answer.headers["Connection"] == "close"
            text = await stream.text()
        assert "data: 19" in text
        assert await asyncio.wait_for(running.controller.wait(), 60) == 0
        await asyncio.wait_for(running.envoy.wait(), 60)
        assert "cut off" not in running.log("controller")


async def test_a_drain_is_bounded_and_says_what_it_cuts_off(gateway: RunningGateway) -> None:
    async with gateway(PENSTOCK_DRAIN_SECONDS="1") as running:
        assert running.controller is not None
        async with running.client.get(running.url("/events?count=1000&ms=200")) as stream:
            await stream.content.readline()
            running.controller.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(running.controller.wait(), 60) == 0
            with pytest.raises(aiohttp.ClientPayloadError):
                await stream.text()
        log = running.log("controller")
        assert re.search(r"1 requests were in flight after \d+ s and are cut off", log)


async def test_two_gateways_are_rolled_under_load_without_loss(gateway: RunningGateway) -> None:
    """The test leads new requests to ready gateways alone, as kube-proxy does, a while after readiness changed."""
    async with (
        gateway(pods=2, PENSTOCK_ACCEPT_SECONDS="2") as first,
        stack({"PENSTOCK_ACCEPT_SECONDS": "2"}, first.api) as second,
    ):
        await second.start_controller()
        await second.start_envoy()
        await second.until_ready()
        in_service = [first.url(), second.url()]
        async with load(lambda: random.choice(in_service), clients=8) as tally:  # noqa: S311
            for rolled in (first, second):
                await _roll(rolled, in_service)
                await first.until_more(lambda: tally.answered, 100)
        assert tally.lost == []


async def _roll(rolled: Stack, in_service: list[str]) -> None:
    assert rolled.controller is not None
    assert rolled.envoy is not None
    rolled.controller.send_signal(signal.SIGTERM)
    while await rolled.is_ready():
        pass
    in_service.remove(rolled.url())
    assert await asyncio.wait_for(rolled.controller.wait(), 60) == 0
    assert await asyncio.wait_for(rolled.envoy.wait(), 60) == 0
    await rolled.start_controller()
    await rolled.start_envoy()
    await rolled.until_ready()
    in_service.append(rolled.url())
