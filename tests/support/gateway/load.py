"""Closed-loop load on a gateway: clients that send one request after the other, and a record of every answer."""

import asyncio
import io
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

REQUEST_SECONDS = 120.0


@dataclass(slots=True)
class Tally:
    """What became of the requests."""

    by_pod: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    """Each request without a right answer, with what came instead."""

    @property
    def answered(self) -> int:
        """Number of right answers."""
        return self.by_pod.total()


@asynccontextmanager
async def load(
    url: str | Callable[[], str], clients: int = 8, body: bytes = b"{}", delay_ms: float = 20
) -> AsyncIterator[Tally]:
    """Send until the block ends; requests in flight then are awaited. A function chooses the URL of each request."""
    tally = Tally()
    stopping = asyncio.Event()
    limits = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=limits, connector=connector) as session:

        async def send() -> None:
            while not stopping.is_set():
                target = url if isinstance(url, str) else url()
                await _one(session, f"{target}/infer?ms={delay_ms}", body, tally)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(send())
            try:
                yield tally
            finally:
                stopping.set()


async def _one(session: aiohttp.ClientSession, url: str, body: bytes, tally: Tally) -> None:
    try:
        async with session.post(url, data=io.BytesIO(body)) as answer:
            text = await answer.text()
            if answer.status != 200:
                tally.lost.append(f"{answer.status} {text}")
                return
            reply = await answer.json()
            if reply["bytes"] != len(body):
                tally.lost.append(f"wrong answer {reply}")
            tally.by_pod[reply["pod"]] += 1
    except (aiohttp.ClientError, TimeoutError) as error:
        tally.lost.append(f"{type(error).__name__}: {error}")
