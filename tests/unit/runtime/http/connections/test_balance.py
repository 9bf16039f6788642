"""Keep-alive clients behind a plain Service find replicas that joined after they connected (docs/design/control-law.md#connection-balance)."""

import asyncio
import random
from typing import Any

from tests.unit.runtime.http.fast_path.test_fast_path import connected, one_answer
from tests.unit.runtime.http.wire_cases import GOOD

AGE_SECONDS = 0.15
CLIENTS = 16


class Service:
    """Draws a backend for each connection, and counts them."""

    def __init__(self, backends: list[Any]) -> None:
        self.backends = backends
        self.connections = 0
        self._chance = random.Random(1)  # noqa: S311 - a Service's dice

    def drawn(self) -> Any:
        self.connections += 1
        return self._chance.choice(self.backends)


async def keeps_alive(service: Service, stop: asyncio.Event) -> None:
    """Send requests on one connection until it closes, then on another."""
    while not stop.is_set():
        reader, writer = await connected(service.drawn())
        answer = b""
        while not stop.is_set() and b"Connection: close" not in answer:
            writer.write(GOOD)
            answer = await one_answer(reader)
            assert answer.startswith(b"HTTP/1.1 200")
            await asyncio.sleep(0.01)
        writer.close()


async def test_new_replicas_get_their_share_of_keep_alive_traffic(start: Any, until: Any) -> None:
    pods = [await start(connection_age_seconds=AGE_SECONDS) for _ in range(4)]
    service, stop = Service(pods[:2]), asyncio.Event()
    clients = [asyncio.create_task(keeps_alive(service, stop)) for _ in range(CLIENTS)]

    async def each_connects(times: int) -> None:
        wanted = service.connections + times * CLIENTS
        await until(lambda: service.connections >= wanted)

    await each_connects(2)
    assert [pod.pod.counters.received for pod in pods[2:]] == [0, 0]
    service.backends = pods
    await each_connects(2)
    before = [pod.pod.counters.received for pod in pods]
    await each_connects(20)
    after = [pod.pod.counters.received for pod in pods]
    stop.set()
    await asyncio.gather(*clients)
    gained = [b - a for a, b in zip(before, after, strict=True)]
    assert min(gained) / sum(gained) >= 0.15, gained
