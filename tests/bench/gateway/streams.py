"""What a way to a pod adds to each token of a stream: the pod says when it sent a token, on the clock of this machine."""

import asyncio
import time
from dataclasses import dataclass, field

import aiohttp

from tests.bench.gateway.emulated_pods import PATH, STREAM_MARK, STREAM_SECONDS

STREAMS = 64
"""At a time; each begins again when it has ended."""


@dataclass(slots=True)
class Tokens:
    """What became of the tokens of all streams."""

    delays: list[float] = field(default_factory=list)
    """Seconds between the pod's write of a token and the client's read."""
    streams: int = 0
    """That ended whole."""
    lost: int = 0
    """Streams that did not."""


async def stream_tokens(host: str, port: int, seconds: float) -> Tokens:
    """Read `STREAMS` streams at a time until `seconds` have passed, and the last ones to their end."""
    tokens = Tokens()
    end = time.monotonic() + seconds

    async def client(session: aiohttp.ClientSession, delay: float) -> None:
        await asyncio.sleep(delay)
        while time.monotonic() < end:
            await _read(session, f"http://{host}:{port}{PATH}", tokens)

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        delays = (STREAM_SECONDS * number / STREAMS for number in range(STREAMS))
        await asyncio.gather(*(client(session, delay) for delay in delays))
    return tokens


async def _read(session: aiohttp.ClientSession, url: str, tokens: Tokens) -> None:
    body = {"model": "demo", "prompt": "a", "stream": True}
    try:
        async with session.post(url, json=body) as answer:
            whole = False
            async for line in answer.content:
                arrived = time.monotonic()
                if line.startswith(STREAM_MARK):
                    tokens.delays.append(arrived - float(line[len(STREAM_MARK) :].split(b'"')[0]))
                whole = whole or line.startswith(b"data: [DONE]")
    except aiohttp.ClientError:
        whole = False
    if whole:
        tokens.streams += 1
    else:
        tokens.lost += 1
