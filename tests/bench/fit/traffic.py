"""Open-loop Poisson traffic to one runtime, with the send time and latency of each request."""

import asyncio
import time
from dataclasses import dataclass

import aiohttp
import numpy as np

from penstock_simulator.pods.routing import Times
from tests.support.load.samples import SampleRequest, sample_requests

FEATURES = 8


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of a run, in seconds from its start."""

    sent: Times
    """Ascending."""
    latency: Times
    lost: int
    """Number of answers that were not 200 or wrong, which are not in the arrays."""


def poisson(rate: float, seconds: float, seed: int) -> Times:
    """Return the intended send times."""
    random = np.random.default_rng(seed)
    return np.sort(random.uniform(0.0, seconds, size=random.poisson(rate * seconds)))


def send(url: str, times: Times) -> Measured:
    """Send one request of one row at each time, independent of earlier answers."""
    return asyncio.run(_send(url, times))


async def _send(url: str, times: Times) -> Measured:
    samples = sample_requests(1, 1, FEATURES)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=15.0)
    async with aiohttp.ClientSession(connector=connector) as session:
        began = time.perf_counter()
        tasks = []
        for index, at in enumerate(times.tolist()):
            await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
            tasks.append(
                asyncio.create_task(_post(session, url, samples[index % len(samples)], began))
            )
        ended = await asyncio.gather(*tasks)
    good = sorted(result for result in ended if result is not None)
    sent, latency = (
        np.array([result[0] for result in good]),
        np.array([result[1] for result in good]),
    )
    return Measured(sent, latency, len(ended) - len(good))


async def _post(
    session: aiohttp.ClientSession, url: str, sample: SampleRequest, began: float
) -> tuple[float, float] | None:
    sent = time.perf_counter()
    async with session.post(url, data=sample.body, headers=sample.headers) as answer:
        body = await answer.read()
        took = time.perf_counter() - sent
        right = answer.status == 200 and sample.accepts(body)
    return (sent - began, took) if right else None
