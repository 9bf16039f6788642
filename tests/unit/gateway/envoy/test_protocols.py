"""Streams and protocols of clients."""

import asyncio
import subprocess
import time

from tests.unit.gateway.envoy.conftest import RunningGateway


async def test_events_arrive_as_they_are_sent(gateway: RunningGateway) -> None:
    async with gateway() as stack:
        begin = time.monotonic()
        url = stack.url("/events?count=4&ms=500")
        async with stack.client.get(url) as answer:
            arrivals = [time.monotonic() - begin async for line in answer.content if line.strip()]
        whole = time.monotonic() - begin
        assert len(arrivals) == 4
        assert arrivals[0] < whole - 1.4  # a buffered stream arrives at its end


async def test_a_client_that_leaves_ends_its_stream_at_the_pod(gateway: RunningGateway) -> None:
    async with gateway() as stack:
        url = stack.url("/events?count=1000&ms=100")
        async with stack.client.get(url) as answer:
            await answer.content.readline()
            answer.close()
        while await stack.envoy_metric("envoy_cluster_upstream_rq_active", pool="demo"):
            pass


async def test_http_2_clients_need_no_upgrade(gateway: RunningGateway) -> None:
    async with gateway() as stack:
        words = (
            "curl",
            "--silent",
            "--show-error",
            "--http2-prior-knowledge",
            "--write-out",
            "%{http_version}",
        )
        sent = (*words, "--data", "abc", stack.url("/infer"))
        done = await asyncio.to_thread(
            subprocess.run, sent, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout == '{"pod": "pod-0", "bytes": 3}2'
