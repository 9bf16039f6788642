"""Interactive requests of a trace: streams that are sent at their times whatever came before, and when their tokens came."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
import numpy as np

PROMPT_WORDS: Final = 24
TIMEOUT: Final = aiohttp.ClientTimeout(total=30)


@dataclass(frozen=True, slots=True)
class Streamed:
    """One request: seconds from its intended time to its first token; None if it was not served to its end."""

    first_token_seconds: float | None


@dataclass(frozen=True, slots=True)
class Attained:
    """What became of the requests of some windows."""

    requests: int
    on_time: int
    failed: int
    p50_seconds: float
    p99_seconds: float

    @property
    def percent(self) -> float:
        """Requests whose first token came within the objective, of all."""
        return 100 * self.on_time / max(1, self.requests)


def attained(streams: Sequence[Streamed], objective_seconds: float) -> Attained:
    """Return how many requests met the objective."""
    served = [each.first_token_seconds for each in streams if each.first_token_seconds is not None]
    on_time = sum(seconds <= objective_seconds for seconds in served)
    p50, p99 = np.percentile(served or [0.0], (50, 99)).tolist()
    return Attained(len(streams), on_time, len(streams) - len(served), p50, p99)


async def send(
    url: str, model: str, times: Sequence[float], tokens: int, over: asyncio.Event
) -> list[Streamed]:
    """Send a request of `tokens` tokens at each time, in seconds from now, until it is `over`; return them once all have ended."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=TIMEOUT) as session:
        began = time.monotonic()
        tasks = []
        for number, at in enumerate(times):
            await asyncio.sleep(max(0.0, began + at - time.monotonic()))
            if over.is_set():
                break
            body = {
                "model": model,
                "prompt": " ".join(f"{number}" for _ in range(PROMPT_WORDS)),
                "max_tokens": tokens,
                "ignore_eos": True,
                "stream": True,
            }
            call = _stream(session, f"{url}/v1/completions", body, began + at)
            tasks.append(asyncio.create_task(call))
        return await asyncio.gather(*tasks)


async def _stream(
    session: aiohttp.ClientSession, url: str, body: dict[str, object], intended: float
) -> Streamed:
    first, last = None, b""
    try:
        async with session.post(url, json=body) as reply:
            if reply.status != 200:
                return Streamed(None)
            async for chunk in reply.content.iter_any():
                first = first or time.monotonic() - intended
                last = (last + chunk)[-32:]
    except (aiohttp.ClientError, OSError, TimeoutError):
        return Streamed(None)
    return Streamed(first if b"[DONE]" in last else None)
