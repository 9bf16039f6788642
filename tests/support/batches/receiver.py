"""A server on loopback that gets webhooks."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Receiver:
    """A server that gets webhooks and answers with the given statuses, then with 204."""

    statuses: list[int]
    url: str = ""
    host: str = ""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def respond(self, request: web.Request) -> web.Response:
        """Record a call."""
        self.got.append((dict(request.headers), await request.read()))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 204)

    async def until(self, calls: int) -> None:
        """Wait until there were so many calls."""
        end = time.monotonic() + 30
        while len(self.got) < calls:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncIterator[Receiver]:
    """Serve on loopback."""
    got = Receiver(list(statuses))
    app = web.Application()
    app.router.add_post("/hook", got.respond)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        got.host = f"127.0.0.1:{runner.addresses[0][1]}"
        got.url = f"http://{got.host}/hook"
        yield got
    finally:
        await runner.cleanup()
