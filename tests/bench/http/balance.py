"""Time until two new replicas get their share of the traffic of sixteen keep-alive clients behind a plain Service."""

import asyncio
import random
from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from typing import Final

from tests.bench.http import bodies
from tests.bench.http.plan import Contender
from tests.bench.http.running import DoesNotServeError, serving

CLIENTS: Final = 16
REPLICAS: Final = 4
SHARE: Final = 0.15
TARGET_SECONDS: Final = 60.0
WINDOW_SECONDS: Final = 10
"""Window of a share."""
SETTLE_SECONDS: Final = 3.0
THINKING_SECONDS: Final = 0.005


class RandomBalancer:
    """Selects a random replica for every new connection, like kube-proxy, and counts the requests by replica."""

    def __init__(self, ports: list[int], draw: random.Random) -> None:
        self.ports = ports
        self.asked: Counter[int] = Counter()
        self._draw = draw

    async def client(self, requests: list[bytes]) -> None:
        """Send requests forever, on one connection until its server closes it."""
        while True:
            port = self._draw.choice(self.ports)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = b""
            while b"Connection: close" not in head:
                writer.write(self._draw.choice(requests))
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200"), head
                await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                self.asked[port] += 1
                await asyncio.sleep(THINKING_SECONDS)
            writer.close()


def share_seconds(ours: Contender) -> float:
    """Return the seconds until each of two new replicas has SHARE of the traffic, or twice the target if not reached."""
    samples = islice(bodies.samples(), 8)
    requests = [bodies.request_of(ours, row)[0] for row, _ in samples]
    with ExitStack() as stack:
        ports = [
            stack.enter_context(serving(replace(ours, name=f"penstock, replica {number}"))).port
            for number in range(REPLICAS)
        ]
        return asyncio.run(_observe(ports, requests))


async def _observe(ports: list[int], requests: list[bytes]) -> float:
    old, new = ports[: REPLICAS // 2], ports[REPLICAS // 2 :]
    service = RandomBalancer(old, random.Random(1))  # noqa: S311 - reproducible
    clients = [asyncio.create_task(service.client(requests)) for _ in range(CLIENTS)]
    await asyncio.sleep(SETTLE_SECONDS)
    service.ports = ports
    seen: deque[Counter[int]] = deque([service.asked.copy()], WINDOW_SECONDS + 1)
    seconds = 2 * TARGET_SECONDS
    for second in range(1, int(TARGET_SECONDS) + 1):
        await asyncio.sleep(1.0)
        seen.append(service.asked.copy())
        lately = seen[-1] - seen[0]
        if min(lately[port] for port in new) >= SHARE * lately.total():
            seconds = float(second)
            break
    for client in clients:
        if client.done() and (error := client.exception()) is not None:
            raise DoesNotServeError(f"a client of the replicas: {error!r}")
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    return seconds
