"""Load on a pod: a closed loop, whose clients wait for an answer before the next request, and an open loop. Does I/O."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import cycle
from typing import Any

import aiohttp

from penstock_tuner.errors import NoRequest
from penstock_tuner.settings import LoadMeasurement

FLOATS = frozenset({"FP16", "FP32", "FP64", "BF16"})
TEXT = "The quick brown fox jumps over the lazy dog."
MAX_REQUEST_SECONDS = 60.0
REFUSED_PAUSE_SECONDS = 0.02
"""Pause of a client after a rejection, which costs the pod next to nothing."""
MAX_OPEN = 4096
"""Requests of an open loop in flight; more only measure this machine."""


def sample_request(metadata: Mapping[str, Any], rows: int = 1) -> dict[str, Any]:
    """Return an Open Inference request of `rows` rows for a model with this metadata.

    Raises:
        NoRequest: a dimension other than the rows is unknown.
    """
    inputs: Sequence[Mapping[str, Any]] = metadata["inputs"]
    if inputs and inputs[0]["datatype"] == "BYTES":  # texts, which stand for the tokens
        return {"inputs": [{**_named(inputs[0]), "shape": [rows], "data": [TEXT] * rows}]}
    return {"inputs": [_filled(tensor, rows) for tensor in inputs]}


def _named(tensor: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": tensor["name"], "datatype": tensor["datatype"]}


def _filled(tensor: Mapping[str, Any], rows: int) -> dict[str, Any]:
    _, *rest = tensor["shape"]
    if any(size < 1 for size in rest):
        raise NoRequest(
            f"input {tensor['name']} has the shape {tensor['shape']}, of which only the rows may vary:"
            " give a request by --request FILE"
        )
    count = rows
    for size in rest:
        count *= size
    value: object = 0.5 if tensor["datatype"] in FLOATS else 1
    return {**_named(tensor), "shape": [rows, *rest], "data": [value] * count}


@dataclass(slots=True)
class Tally:
    """What was sent, or ended, within a window of time."""

    begin: float
    seconds: float
    latencies: list[float] = field(default_factory=list)
    failed: int = 0

    def covers(self, moment: float) -> bool:
        """Return whether `moment` is within the window."""
        return self.begin <= moment < self.begin + self.seconds

    def count(self, latency: float, *, good: bool) -> None:
        """Count one request of the window."""
        if good:
            self.latencies.append(latency)
        else:
            self.failed += 1

    def measurement(self, objective_seconds: float) -> LoadMeasurement:
        """Return the figures."""
        ascending = sorted(self.latencies)
        return LoadMeasurement(
            seconds=self.seconds,
            completed=len(ascending),
            on_time=sum(latency <= objective_seconds for latency in ascending),
            failed=self.failed,
            p50_milliseconds=1000 * quantile(ascending, 0.5),
            p99_milliseconds=1000 * quantile(ascending, 0.99),
        )


class ClosedLoop:
    """Clients that keep a pod busy, and count what ends within a window."""

    def __init__(
        self, url: str, requests: Sequence[Mapping[str, Any]], objective_seconds: float
    ) -> None:
        """`url` is that of inference; `requests` are sent in turn."""
        self._url = url
        self._requests = requests
        self._objective_seconds = objective_seconds

    async def measure(self, clients: int, settle_seconds: float, seconds: float) -> LoadMeasurement:
        """Return what ended in `seconds` after `settle_seconds` of the same load."""
        tally = Tally(time.perf_counter() + settle_seconds, seconds)
        bodies = cycle(self._requests)

        async def client() -> None:
            while (sent := time.perf_counter()) < tally.begin + seconds:
                good = await send(session, self._url, next(bodies))
                ended = time.perf_counter()
                if tally.covers(ended):
                    tally.count(ended - sent, good=good)
                if not good:
                    await asyncio.sleep(REFUSED_PAUSE_SECONDS)

        async with _session(clients, MAX_REQUEST_SECONDS) as session, asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())
        return tally.measurement(self._objective_seconds)


class OpenLoop:
    """Poisson arrivals, sent whether or not earlier ones have ended; latency counts from the arrival."""

    def __init__(
        self,
        url: str,
        requests: Sequence[Mapping[str, Any]],
        objective_seconds: float,
        seed: int = 1,
    ) -> None:
        """`url` is that of inference; `requests` are sent in turn."""
        self._url = url
        self._requests = requests
        self._objective_seconds = objective_seconds
        self._random = random.Random(seed)  # noqa: S311  arrivals, not secrets

    async def measure(self, rate: float, settle_seconds: float, seconds: float) -> LoadMeasurement:
        """Return what became of the requests that arrived in `seconds` after `settle_seconds` of the same load.

        `rate` is in requests per second. A request without an answer after four times the objective counts as failed.
        """
        arrival = time.perf_counter()
        tally = Tally(arrival + settle_seconds, seconds)
        bodies = cycle(self._requests)

        async def request(arrived: float) -> None:
            good = await send(session, self._url, next(bodies))
            if tally.covers(arrived):
                tally.count(time.perf_counter() - arrived, good=good)

        limit = min(max(4 * self._objective_seconds, 1.0), MAX_REQUEST_SECONDS)
        async with _session(MAX_OPEN, limit) as session, asyncio.TaskGroup() as group:
            while arrival < tally.begin + seconds:
                group.create_task(request(arrival))
                arrival += self._random.expovariate(rate)
                await asyncio.sleep(max(arrival - time.perf_counter(), 0))
        return tally.measurement(self._objective_seconds)


def _session(connections: int, seconds: float) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=connections)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=seconds))


async def send(session: aiohttp.ClientSession, url: str, request: Mapping[str, Any]) -> bool:
    """Send a request; return whether it was answered with a result."""
    try:
        async with session.post(url, json=request) as answer:
            await answer.read()
            return answer.status == HTTPStatus.OK
    except (aiohttp.ClientError, TimeoutError):
        return False


def quantile(ascending: Sequence[float], share: float) -> float:
    """Return a quantile of ascending values, the nearest rank; 0 without values."""
    if not ascending:
        return 0.0
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)]
