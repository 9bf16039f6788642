"""Clients that differ in the pod that a request reaches: by connection, by the gateway, or by an oracle."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.bench.gateway.emulated_pods import PATH

CONNECTION_SECONDS = 20.0
"""Age at which a client's connection is replaced, as pods close it behind a plain Service."""


def body_of(size: int) -> bytes:
    """Return a completion request of `size` bytes."""
    head, end = b'{"model": "demo", "prompt": "', b'"}'
    return head + b"x" * (size - len(head) - len(end)) + end


@dataclass(slots=True)
class Connection:
    """A keep-alive connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    expires: float

    async def post(self, body: bytes) -> int:
        """Send a request, and return the status of its answer."""
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        fields = answer.lower().split(b"\r\n")
        if b"transfer-encoding: chunked" in fields:
            await self.reader.readuntil(b"0\r\n\r\n")
        else:
            (length,) = (
                int(line.split(b":")[1]) for line in fields if line.startswith(b"content-length:")
            )
            await self.reader.readexactly(length)
        return int(answer[9:12])


@dataclass(slots=True)
class Target:
    """Idle connections to one address, the last used first."""

    address: str
    port: int
    idle: list[Connection] = field(default_factory=list)

    async def post(self, body: bytes) -> int:
        """Send a request on an idle connection, or on a new one."""
        connection = self.idle.pop() if self.idle else await self.connect()
        status = await connection.post(body)
        if time.monotonic() < connection.expires:
            self.idle.append(connection)
        else:
            connection.writer.close()
        return status

    async def connect(self) -> Connection:
        reader, writer = await asyncio.open_connection(self.address, self.port)
        age = CONNECTION_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311
        return Connection(reader, writer, time.monotonic() + age)


class ByGateway:
    """Every request goes to the gateway."""

    def __init__(self, address: str, port: int) -> None:
        self._target = Target(address, port)

    async def post(self, body: bytes) -> int:
        """Send a request."""
        return await self._target.post(body)


class ByConnection:
    """A plain Service: a connection leads to a random pod for its life, and requests take the last idle connection."""

    def __init__(self, addresses: Sequence[str], port: int) -> None:
        self._addresses = addresses
        self._port = port
        self._idle: list[Connection] = []

    async def post(self, body: bytes) -> int:
        """Send a request."""
        if self._idle:
            connection = self._idle.pop()
        else:
            address = random.choice(self._addresses)  # noqa: S311
            connection = await Target(address, self._port).connect()
        status = await connection.post(body)
        if time.monotonic() < connection.expires:
            self._idle.append(connection)
        else:
            connection.writer.close()
        return status


class ByOracle:
    """Every request goes to the pod with the least requests in flight, known exactly."""

    def __init__(self, addresses: Sequence[str], port: int, *, rotates: bool = False) -> None:
        """`rotates`: of pods with equally many, the one chosen longest ago is taken, instead of any."""
        self._targets = [Target(address, port) for address in addresses]
        self._in_flight: Counter[str] = Counter()
        self._rotates = rotates

    async def post(self, body: bytes) -> int:
        """Send a request."""
        if not self._rotates:
            random.shuffle(self._targets)
        target = min(self._targets, key=lambda target: self._in_flight[target.address])
        self._targets.remove(target)
        self._targets.append(target)
        self._in_flight[target.address] += 1
        try:
            return await target.post(body)
        finally:
            self._in_flight[target.address] -= 1


@dataclass(slots=True)
class Sent:
    """What became of requests."""

    latencies: list[float] = field(default_factory=list)
    """Of those answered with 200, in seconds."""
    lost: int = 0
    """Requests answered with another status."""

    def add(self, status: int, seconds: float) -> None:
        """Count a request."""
        if status == 200:
            self.latencies.append(seconds)
        else:
            self.lost += 1


Client = ByGateway | ByConnection | ByOracle


async def open_loop(client: Client, rate: float, seconds: float, seed: int, body: bytes) -> Sent:
    """Send Poisson arrivals; latencies count from the arrival."""
    arrivals = random.Random(seed)  # noqa: S311
    sent = Sent()
    begin = time.monotonic()

    async def send(at: float) -> None:
        status = await client.post(body)
        sent.add(status, time.monotonic() - at)

    at = begin
    async with asyncio.TaskGroup() as tasks:
        while (at := at + arrivals.expovariate(rate)) < begin + seconds:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            tasks.create_task(send(at))
    return sent


async def closed_loop(client: Client, connections: int, seconds: float, body: bytes) -> Sent:
    """Send one request after the other on each connection."""
    sent = Sent()
    end = time.monotonic() + seconds

    async def send() -> None:
        while (begin := time.monotonic()) < end:
            status = await client.post(body)
            sent.add(status, time.monotonic() - begin)

    await asyncio.gather(*(send() for _ in range(connections)))
    return sent
