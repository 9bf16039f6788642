"""`python -m tests.bench.http.cost`: processor time of our Python code per request, compared with the raw sketch's.

Both protocols are called like an event loop calls them, one round of requests at a time, over a transport that only
counts. The bench reports the cheapest round, which is robust on a shared machine, and alternates every tenth of a second,
so that both run under the same conditions. The cost of sockets is not included.
"""

import asyncio
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import uvloop

from penstock_runtime.assembly import make_pod
from penstock_runtime.config import read_config
from penstock_runtime.engine.machine import spare_the_collector
from penstock_runtime.http.server import ClientServer
from penstock_runtime.serving.limits import first_limits
from penstock_runtime.telemetry.metrics import Exposition
from tests.bench.http import bodies
from tests.bench.http.plan import CONTENDERS, OURS, PEERS, SERVER_CORE

CONNECTIONS: Final = (64, 256)
SECONDS: Final = 6.0
"""Duration of each server's measurement with one number of connections."""
TURN_SECONDS: Final = 0.1
Make = Callable[[], Any]


class Counting(asyncio.Transport):
    """A transport that counts answers, of a client that reads without delay."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0
        self.last = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: Any) -> None:
        self.answers += 1
        self.last = data

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        """Do nothing: there is no socket."""


async def ours() -> Make:
    """Return the connection factory of a pod that serves the network."""
    config = read_config({**OURS, "PENSTOCK_CLIENT_PORT": "0", "PENSTOCK_CONNECTION_AGE_SECONDS": "86400", "PENSTOCK_CONNECTION_REQUESTS": "1000000000"})  # fmt: skip
    pod = make_pod(config, first_limits(config.files.limits_file))
    server = ClientServer(pod, Exposition(pod))
    await server.start()
    await pod.load()
    spare_the_collector()
    assert server._runner is not None
    factory: Make = server._runner.server  # type: ignore[assignment]
    return factory


async def sketch() -> Make:
    """Return the protocol class of the raw sketch."""
    spec = importlib.util.spec_from_file_location("sketch", PEERS / "sketch_asyncio.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    factory: Make = module.Sketch
    return factory


class Course:
    """A server, its connections, and its cheapest round."""

    def __init__(self, make: Make, requests: list[bytes], connections: int) -> None:
        self._requests = requests
        self._rounds = 0
        self._pairs = [(make(), Counting()) for _ in range(connections)]
        for protocol, transport in self._pairs:
            protocol.connection_made(transport)
        self._best = float("inf")

    def microseconds(self) -> float:
        """Return the processor time of a request in the cheapest round."""
        assert all(transport.last.startswith(b"HTTP/1.1 200") for _, transport in self._pairs)
        return 1e6 * self._best / len(self._pairs)

    async def run(self, seconds: float) -> None:
        """Serve rounds of one request per connection for `seconds`."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            began_cpu = time.process_time()
            self._rounds += 1
            for number, (protocol, _) in enumerate(self._pairs):
                protocol.data_received(
                    self._requests[(self._rounds + number) % len(self._requests)]
                )
            while any(transport.answers < self._rounds for _, transport in self._pairs):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
            self._best = min(self._best, time.process_time() - began_cpu)


async def compare(courses: Sequence[Course]) -> None:
    """Run the courses alternately."""
    for _ in range(int(SECONDS / TURN_SECONDS)):
        for course in courses:
            await course.run(TURN_SECONDS)


async def main() -> None:
    """Measure and print."""
    os.sched_setaffinity(0, {SERVER_CORE})  # the same placement as in the bench
    sys.path.insert(0, str(PEERS))
    torch.set_num_threads(1)
    kinds = {contender.name: contender for contender in CONTENDERS}
    sent = {
        name: [bodies.request_of(kinds[name], row)[0] for row, _ in bodies.samples()]
        for name in ("penstock", "penstock, binary")
    }
    raw, own = await sketch(), await ours()
    for connections in CONNECTIONS:
        floor = Course(raw, sent["penstock"], connections)
        mine = {name: Course(own, requests, connections) for name, requests in sent.items()}
        await compare([floor, *mine.values()])
        least = floor.microseconds()
        print(f"{connections} connections: sketch {least:.1f} us a request")
        for name, course in mine.items():
            cost = course.microseconds()
            print(f"{connections} connections: {name} {cost:.1f} us, {cost / least:.2f}x")


if __name__ == "__main__":
    uvloop.run(main())
    os._exit(0)  # without a wait for the engine's thread
