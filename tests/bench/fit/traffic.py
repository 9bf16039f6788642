"""Open-loop Poisson traffic against one runtime: when each request left, and how long it took."""

import asyncio
import time
from dataclasses import dataclass

import aiohttp
import numpy as np

from penstock_simulator.routing import Times
from tests.support.load.samples import SampleRequest, sample_requests

FEATURES = 8


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, in seconds from its beginning."""

    sent: Times
    """Ascending."""
    latency: Times
    lost: int
    """Answers that were not 200, or wrong; none of them is in the others."""


def poisson(rate: float, seconds: float, seed: int) -> Times:
    """Return the times at which requests should leave."""
    random = np.random.default_rng(seed)
    return np.sort(random.uniform(0.0, seconds, size=random.poisson(rate * seconds)))


def send(url: str, times: Times) -> Measured:
    """Send one request of one row at each time, whatever became of the earlier ones."""
    return asyncio.run(_send(url, times))


async def _send(url: str, times: Times) -> Measured:
    asked = sample_requests(1, 1, FEATURES)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=15.0)
    async with aiohttp.ClientSession(connector=connector) as session:
        began = time.perf_counter()
        tasks = []
        for index, at in enumerate(times.tolist()):
            await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
            tasks.append(asyncio.create_task(_ask(session, url, asked[index % len(asked)], began)))
        ended = await asyncio.gather(*tasks)
    good = sorted(one for one in ended if one is not None)
    sent, latency = np.array([one[0] for one in good]), np.array([one[1] for one in good])
    return Measured(sent, latency, len(ended) - len(good))


async def _ask(
    session: aiohttp.ClientSession, url: str, question: SampleRequest, began: float
) -> tuple[float, float] | None:
    sent = time.perf_counter()
    async with session.post(url, data=question.body, headers=question.headers) as answer:
        body = await answer.read()
        took = time.perf_counter() - sent
        right = answer.status == 200 and question.accepts(body)
    return (sent - began, took) if right else None
