"""A pool on loopback whose responses a test scripts by prompt."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Script = Callable[[str, int], "Scripted"]
"""From a prompt, or the id of an infer request, and how often it was sent before to the response."""


@dataclass(frozen=True, slots=True)
class Scripted:
    """A response, with `error` if its status is one; `lost` closes the connection instead."""

    status: int = 200
    retry_after: str | None = None
    lost: bool = False
    seconds: float = 0.0
    error: str = "no"


@dataclass(slots=True)
class ScriptedPool:
    """What the pool got."""

    script: Script
    url: str = ""
    sent: Counter[str] = field(default_factory=Counter)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    async def respond(self, request: web.Request) -> web.Response:
        """Respond as scripted."""
        body = await request.json()
        prompt = body["prompt"] if "prompt" in body else body["id"]
        scripted = self.script(prompt, self.sent[prompt])
        self.sent[prompt] += 1
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(scripted.seconds)
        finally:
            self.in_flight -= 1
        if scripted.lost:
            assert request.transport is not None
            request.transport.abort()
        headers = {"Retry-After": scripted.retry_after} if scripted.retry_after else {}
        answer = (
            {"text": prompt} if scripted.status < 300 else {"error": {"message": scripted.error}}
        )
        return web.json_response(answer, status=scripted.status, headers=headers)


@asynccontextmanager
async def scripted_pool(
    script: Script = lambda _prompt, _times: Scripted(),
) -> AsyncIterator[ScriptedPool]:
    """Serve a script."""
    pool = ScriptedPool(script)
    app = web.Application()
    app.router.add_post("/v1/completions", pool.respond)
    app.router.add_post("/v2/models/demo/infer", pool.respond)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pool.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield pool
    finally:
        await runner.cleanup()
