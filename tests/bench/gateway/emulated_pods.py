"""Pods with a known service time, in one process: `python -m tests.bench.gateway.emulated_pods KIND NETWORK COUNT`.

`Batching`: a batch of b requests takes 200 + 25 b ms, b at most 8. `Continuous`: a step of n sequences takes
20 + 2.5 n ms, n at most 8, and a request needs 5 to 15 steps. Either serves 20 requests/s at most. `Instant` answers at once,
and a request with `"stream": true` by a token every 20 ms that says when it was sent.
Sleeping pods share a core without slowing each other, so the differences between balancers remain.
"""

import asyncio
import random
import re
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from aiohttp import web

from penstock_api import names

PATH = "/v1/completions"
"""A path that other projects' routers route, too."""
CAP = 8
REQUESTS_PER_SECOND = 20.0
"""Capacity of a pod of either kind."""
TOKENS = 100
TOKEN_SECONDS = 0.02
_STREAMED = re.compile(rb'"stream": *true')
STREAM_SECONDS = TOKENS * TOKEN_SECONDS
STREAM_MARK = b'data: {"choices": [{"index": 0, "text": "'
"""What precedes a token's text: the time at which it was sent, in seconds of the monotonic clock."""


class PodKind(StrEnum):
    """How a pod serves."""

    BATCHING = "Batching"
    CONTINUOUS = "Continuous"
    INSTANT = "Instant"


@dataclass(slots=True)
class _Request:
    steps: int
    done: asyncio.Event = field(default_factory=asyncio.Event)


class WatchedPod:
    """A pod's queue and engine."""

    def __init__(self, kind: PodKind, seed: int) -> None:
        self._kind = kind
        self._random = random.Random(seed)  # noqa: S311
        self._waiting: deque[_Request] = deque()
        self._arrived = asyncio.Event()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer once the engine has computed the request."""
        body = await request.read()
        if self._kind is PodKind.INSTANT and len(body) < 1000 and _STREAMED.search(body):
            return await _stream(request)
        if self._kind is not PodKind.INSTANT:
            own = _Request(self._random.randint(5, 15))
            self._waiting.append(own)
            self._arrived.set()
            await own.done.wait()
        return web.json_response({})

    async def run(self) -> None:
        """Compute forever."""
        running: list[_Request] = []
        while True:
            if not self._waiting and not running:
                self._arrived.clear()
                await self._arrived.wait()
            if self._kind is PodKind.BATCHING:
                batch = [self._waiting.popleft() for _ in range(min(CAP, len(self._waiting)))]
                await asyncio.sleep(0.2 + 0.025 * len(batch))
                for request in batch:
                    request.done.set()
                continue
            while self._waiting and len(running) < CAP:
                running.append(self._waiting.popleft())
            await asyncio.sleep(0.02 + 0.0025 * len(running))
            for request in running:
                request.steps -= 1
                if not request.steps:
                    request.done.set()
            running = [request for request in running if request.steps]


async def _stream(request: web.Request) -> web.StreamResponse:
    """Send a token at a time."""
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    begin = time.monotonic()
    for number in range(TOKENS):
        await asyncio.sleep(begin + number * TOKEN_SECONDS - time.monotonic())
        await answer.write(b'%b%.6f"}]}\n\n' % (STREAM_MARK, time.monotonic()))
    await answer.write(b"data: [DONE]\n\n")
    return answer


async def healthy(_: web.Request) -> web.Response:
    """Answer the health checks of routers."""
    return web.Response()


async def models(_: web.Request) -> web.Response:
    """Answer the routers that read engine and models of a pod."""
    model = {"id": "demo", "object": "model", "owned_by": "vllm", "max_model_len": 4096}
    return web.json_response({"object": "list", "data": [model]})


async def main(kind: PodKind, network: str, count: int) -> None:
    """Serve `count` pods on consecutive addresses."""
    engines = set()
    for number in range(count):
        pod = WatchedPod(kind, number)
        app = web.Application(client_max_size=2**24)
        app.router.add_post(PATH, pod.serve)
        app.router.add_get("/health", healthy)
        app.router.add_get("/v1/models", models)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, f"{network}.{10 + number}", names.CLIENT_PORT).start()
        engines.add(asyncio.create_task(pod.run()))
    print("listening", flush=True)
    await asyncio.gather(*engines)


if __name__ == "__main__":
    asyncio.run(main(PodKind(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
