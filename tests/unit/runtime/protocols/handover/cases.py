"""Requests of every kind that can be handed over, and the address of a pool that leads to chosen pods."""

import asyncio
import re
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import aiohttp
from aiohttp import web

T = TypeVar("T")
Call = tuple[str, dict[str, Any]]
"""Path and body."""

CHAT: Final = "/v1/chat/completions"
TEXT: Final = "/v1/completions"
TRITON: Final = "/v2/models/tiny/generate_stream"
NUMBERS = {
    "type": "object",
    "properties": {"n": {"type": "array", "items": {"type": "integer"}, "minItems": 20}},
    "required": ["n"],
    "additionalProperties": False,
}
LONG = {"stream": True, "ignore_eos": True, "max_tokens": 64}
GATE = {**LONG, "prompt": "A gate"}
TALK = {**LONG, "messages": [{"role": "user", "content": "Describe gates"}]}
USAGE = {"stream_options": {"include_usage": True}}
CALLS: Final[dict[str, Call]] = {
    "greedy": (TEXT, {**GATE, **USAGE, "temperature": 0}),
    "seeded": (TEXT, {**GATE, "seed": 7, "temperature": 1.2, "top_p": 0.9}),
    "penalties": (
        TEXT,
        {**GATE, "seed": 1, "frequency_penalty": 0.6, "repetition_penalty": 1.2},
    ),
    "unmet stop string": (TEXT, {**GATE, "seed": 2, "stop": ["qzx", "the river bank"]}),
    "log-probabilities": (TEXT, {**GATE, "seed": 3, "logprobs": 3}),
    "choices": (TEXT, {**GATE, **USAGE, "seed": 4, "n": 3}),
    "two prompts": (TEXT, {**LONG, "prompt": ["A gate", "Two rivers"], "seed": 5}),
    "echo": (TEXT, {**GATE, "seed": 12, "echo": True, "logprobs": 1}),
    "chat": (CHAT, {**TALK, **USAGE, "seed": 6}),
    "chat log-probabilities": (CHAT, {**TALK, "seed": 8, "logprobs": True, "top_logprobs": 2}),
    "grammar": (CHAT, {**TALK, "seed": 9, "structured_outputs": {"json": NUMBERS}}),
    "whole": (TEXT, {**GATE, "seed": 10, "stream": False}),
    "triton": (
        TRITON,
        {"text_input": "A gate", "parameters": {"seed": 11, "max_tokens": 64, "ignore_eos": True}},
    ),
}
_VARYING: Final = re.compile(rb'"(id|created)":("[^"]*"|\d+)')

_INDEX: Final = re.compile(rb'"choices":\[\{"index":(\d+)')


async def answer_of(url: str, call: Call, **headers: str) -> bytes:
    """Return the body of an answer, without ids and times of creation."""
    path, body = call
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session,
        session.post(url + path, json=body, headers=headers) as reply,
    ):
        return normalized(await reply.read())


def normalized(answer: bytes) -> bytes:
    """Return an answer without ids, times of creation and pings."""
    return _VARYING.sub(rb'"\1":0', answer).replace(b": ping\n\n", b"")


def by_choice(answer: bytes) -> dict[bytes, list[bytes]]:
    """Return the events of each choice: which of them has the next event is up to the scheduler."""
    events: dict[bytes, list[bytes]] = {}
    for event in answer.split(b"\n\n"):
        index = _INDEX.search(event)
        events.setdefault(index[1] if index else b"", []).append(event)
    return events


class PoolAddress:
    """Forwards each request to the next of `pods`, the last of which stays; without any it answers 503."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.statuses: list[int] = []
        self.cut_after_bytes: int | None = None
        """Length of the answer after which the connection of the next request breaks."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.url = self._wait(self._start())

    def close(self) -> None:
        """Stop."""
        self._wait(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> str:
        self._session = aiohttp.ClientSession()
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/{path:.*}", self._forward)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{site.port}"

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if not self.pods:
            self.statuses.append(503)
            return web.Response(status=503)
        pod = self.pods.pop(0) if len(self.pods) > 1 else self.pods[0]
        kept = {
            name: request.headers[name] for name in ("Authorization",) if name in request.headers
        }
        cut, self.cut_after_bytes = self.cut_after_bytes, None
        async with self._session.post(
            pod + request.path, data=await request.read(), headers=kept
        ) as reply:
            self.statuses.append(reply.status)
            response = web.StreamResponse(status=reply.status)
            await response.prepare(request)
            length = 0
            async for piece in reply.content.iter_any():
                await response.write(piece)
                length += len(piece)
                if cut is not None and length >= cut and request.transport is not None:
                    request.transport.abort()
        return response
