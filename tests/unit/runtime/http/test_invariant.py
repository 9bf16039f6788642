"""Received = completed + failed + expired + cancelled + rejected, whatever clients do (docs/design/runtime.md#accounting)."""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from penstock_runtime.request import RequestOutcome

Call = Callable[..., dict[str, Any]]


async def misbehave(pod: Any, call: Call, draw: random.Random) -> int | None:
    """Do one thing that a client may do; return the status that it saw, if any."""
    kind = draw.randrange(8)
    patience = aiohttp.ClientTimeout(total=draw.uniform(0.001, 0.02))
    try:
        match kind:
            case 0:
                reply = await pod.infer(call(rows=draw.randrange(1, 12)))
            case 1:
                reply = await pod.infer(call(value=666))
            case 2:
                reply = await pod.infer({"inputs": []})
            case 3:
                reply = await pod.infer(call(parameters={"timeout": draw.randrange(1, 9000)}))
            case 4:
                reply = await pod.infer(call(rows=3), timeout=patience)
            case 5:
                await half_a_request(pod.url, draw)
                return None
            case 6:
                reply = await pod.session.post(f"{pod.url}/v2/models/no/infer", json=call())
            case _:
                reply = await pod.infer(call(), headers={"Content-Encoding": "gzip"})
        async with reply:
            await reply.read()
            return int(reply.status)
    except (TimeoutError, aiohttp.ClientError):
        return None


async def half_a_request(url: str, draw: random.Random) -> None:
    """Send a part of a request, or all of it, and leave without a word."""
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
    body = json.dumps({"inputs": []}).encode()
    head = (
        f"POST /v2/models/halves/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    whole = head.encode() + body
    writer.write(whole[: draw.randrange(len(head) - 5, len(whole) + 1)])
    await writer.drain()
    await asyncio.sleep(draw.uniform(0, 0.01))
    writer.transport.abort()


@pytest.mark.parametrize(("seed", "fast_path"), [(1, True), (2, True), (3, False)])
async def test_every_request_leaves_exactly_once(
    start: Any, call: Call, until: Any, seed: int
) -> None:
    pod = await start(connection_requests=7)
    draw = random.Random(seed)  # noqa: S311 - clients' whims, no secret
    seen: list[int | None] = []
    clients = asyncio.Semaphore(90)

    async def client() -> None:
        async with clients:
            seen.append(await misbehave(pod, call, draw))

    async def blink() -> None:
        while True:
            pod.model.gate.clear()
            await asyncio.sleep(0.01)
            pod.model.gate.set()
            await asyncio.sleep(0.01)

    blinking = asyncio.create_task(blink())
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for _ in range(600):
            group.create_task(client())
    blinking.cancel()
    pod.model.gate.set()
    counters = pod.pod.counters
    await until(lambda: pod.pod.admission.empty() and counters.settled() == counters.received)
    assert counters.received >= seen.count(200) > 0
    assert counters.ended[RequestOutcome.COMPLETED] >= seen.count(200)
    assert counters.ended[RequestOutcome.FAILED] >= seen.count(500) > 0
    assert counters.ended[RequestOutcome.CANCELLED] > 0
    assert set(seen) <= {200, 400, 404, 429, 500, 504, None}
    assert pod.pod.admission.load().model_dump() == {"waiting": 0, "running": 0}
    async with await pod.infer(call()) as reply:
        assert reply.status == 200
