"""Keep-alive clients behind a plain Service find replicas that joined after they connected (CONTROL, Balance)."""

import asyncio
import random
from typing import Any

from tests.unit.http.test_lanes import connected, one_answer
from tests.unit.http.wire_cases import GOOD

AGE_SECONDS = 0.15
CLIENTS = 16


async def keeps_alive(backends: list[Any], draw: random.Random, stop: asyncio.Event) -> None:
    """Ask on one connection until told that it ends; a Service draws a backend for each connection."""
    while not stop.is_set():
        reader, writer = await connected(draw.choice(backends))
        answer = b""
        while not stop.is_set() and b"Connection: close" not in answer:
            writer.write(GOOD)
            answer = await one_answer(reader)
            assert answer.startswith(b"HTTP/1.1 200")
            await asyncio.sleep(0.01)
        writer.close()


async def test_new_replicas_get_their_share_of_keep_alive_traffic(start: Any) -> None:
    pods = [await start(connection_age_seconds=AGE_SECONDS) for _ in range(4)]
    backends, stop, draw = pods[:2], asyncio.Event(), random.Random(1)  # noqa: S311 - a Service's dice
    clients = [asyncio.create_task(keeps_alive(backends, draw, stop)) for _ in range(CLIENTS)]
    await asyncio.sleep(AGE_SECONDS)
    assert [pod.pod.counters.received for pod in pods[2:]] == [0, 0]
    backends += pods[2:]
    await asyncio.sleep(1.5 * AGE_SECONDS)
    before = [pod.pod.counters.received for pod in pods]
    await asyncio.sleep(20 * AGE_SECONDS)
    after = [pod.pod.counters.received for pod in pods]
    stop.set()
    await asyncio.gather(*clients)
    gained = [b - a for a, b in zip(before, after, strict=True)]
    assert min(gained) / sum(gained) >= 0.15, gained
