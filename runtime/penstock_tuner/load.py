"""Load on a pod: a closed loop, whose clients wait for an answer before the next request, and an open loop. Does I/O."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import cycle
from typing import Any

import aiohttp

from penstock_tuner.errors import NoRequest
from penstock_tuner.settings import FailedRequest, Latencies, LoadMeasurement, TuningObjective

FLOATS = frozenset({"FP16", "FP32", "FP64", "BF16"})
TEXT = "The quick brown fox jumps over the lazy dog."
MAX_REQUEST_SECONDS = 60.0
REFUSED_PAUSE_SECONDS = 0.02
"""Pause of a client after a rejection, which costs the pod next to nothing."""
MAX_REASON = 300
"""Characters that are kept of the body of a rejection."""
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
    datatype = tensor["datatype"]
    value: object = 0.5 if datatype in FLOATS else True if datatype == "BOOL" else 1
    return {**_named(tensor), "shape": [rows, *rest], "data": [value] * count}


Sender = Callable[[aiohttp.ClientSession, float], Awaitable[Latencies | FailedRequest]]
"""Sends the next request of a load and returns its latencies from a moment on."""


@dataclass(slots=True)
class Tally:
    """What was sent, or ended, within a window of time."""

    begin: float
    seconds: float
    latencies: list[Latencies] = field(default_factory=list)
    failed: int = 0
    refusal: str = ""
    """Reason of the last request that failed."""

    def covers(self, moment: float) -> bool:
        """Return whether `moment` is within the window."""
        return self.begin <= moment < self.begin + self.seconds

    def count(self, ended: Latencies | FailedRequest) -> None:
        """Count one request of the window."""
        if isinstance(ended, FailedRequest):
            self.failed += 1
            self.refusal = ended.reason
        else:
            self.latencies.append(ended)

    def measurement(self, objective: TuningObjective) -> LoadMeasurement:
        """Return the figures."""
        ascending = sorted(each.of(objective.metric) for each in self.latencies)
        return LoadMeasurement(
            seconds=self.seconds,
            completed=len(ascending),
            on_time=sum(map(objective.admits, self.latencies)),
            failed=self.failed,
            p50_milliseconds=1000 * quantile(ascending, 0.5),
            p99_milliseconds=1000 * quantile(ascending, 0.99),
            refusal=self.refusal,
        )


class ClosedLoop:
    """Clients that keep a pod busy, and count what ends within a window."""

    def __init__(self, send: Sender, objective: TuningObjective) -> None:
        self._send = send
        self._objective = objective

    async def measure(self, clients: int, settle_seconds: float, seconds: float) -> LoadMeasurement:
        """Return what ended in `seconds` after `settle_seconds` of the same load."""
        tally = await self.tally(clients, settle_seconds, seconds)
        return tally.measurement(self._objective)

    async def tally(self, clients: int, settle_seconds: float, seconds: float) -> Tally:
        """Return the latencies of `measure`."""
        tally = Tally(time.perf_counter() + settle_seconds, seconds)

        async def client() -> None:
            while (sent := time.perf_counter()) < tally.begin + seconds:
                ended = await self._send(session, sent)
                if tally.covers(time.perf_counter()):
                    tally.count(ended)
                if isinstance(ended, FailedRequest):
                    await asyncio.sleep(REFUSED_PAUSE_SECONDS)

        async with _session(clients, MAX_REQUEST_SECONDS) as session, asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())
        return tally


class OpenLoop:
    """Poisson arrivals, sent whether or not earlier ones have ended; latency counts from the arrival."""

    def __init__(
        self, send: Sender, objective: TuningObjective, limit_seconds: float, seed: int = 1
    ) -> None:
        """A request without an answer after `limit_seconds` counts as failed."""
        self._send = send
        self._objective = objective
        self._limit_seconds = limit_seconds
        self._random = random.Random(seed)  # noqa: S311  arrivals, not secrets

    async def measure(self, rate: float, settle_seconds: float, seconds: float) -> LoadMeasurement:
        """Return what became of the requests that arrived in `seconds` after `settle_seconds` of the same load.

        `rate` is in requests per second.
        """
        arrival = time.perf_counter()
        tally = Tally(arrival + settle_seconds, seconds)

        async def request(arrived: float) -> None:
            ended = await self._send(session, arrived)
            if tally.covers(arrived):
                tally.count(ended)

        limit = min(max(self._limit_seconds, 1.0), MAX_REQUEST_SECONDS)
        async with _session(MAX_OPEN, limit) as session, asyncio.TaskGroup() as group:
            while arrival < tally.begin + seconds:
                group.create_task(request(arrival))
                arrival += self._random.expovariate(rate)
                await asyncio.sleep(max(arrival - time.perf_counter(), 0))
        return tally.measurement(self._objective)


def _session(connections: int, seconds: float) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=connections)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=seconds))


def infer_sender(url: str, requests: Sequence[Mapping[str, Any]]) -> Sender:
    """Return the sender of Open Inference requests, in turn."""
    bodies = cycle(requests)

    async def send(session: aiohttp.ClientSession, began: float) -> Latencies | FailedRequest:
        try:
            async with session.post(url, json=next(bodies)) as answer:
                if answer.status != HTTPStatus.OK:
                    return await rejection(answer)
                await answer.read()
                return Latencies(time.perf_counter() - began)
        except (aiohttp.ClientError, TimeoutError) as error:
            return failure(error)

    return send


async def probe(send: Sender, count: int) -> None:
    """Send `count` requests, one after the other. Raises `NoRequest` at the first without an answer."""
    async with _session(1, MAX_REQUEST_SECONDS) as session:
        for _ in range(count):
            ended = await send(session, time.perf_counter())
            if isinstance(ended, FailedRequest):
                raise NoRequest(
                    f"a request of this load fails: {ended.reason}:"
                    " correct --rows, --prompt-tokens, --output-tokens or --request"
                )


async def rejection(answer: aiohttp.ClientResponse) -> FailedRequest:
    """Return the status and the body of an answer other than 200."""
    return FailedRequest(f"{answer.status} {(await answer.text(errors='replace'))[:MAX_REASON]}")


def failure(error: Exception) -> FailedRequest:
    """Return the error of a request without an answer."""
    return FailedRequest(f"{type(error).__name__}: {error}".removesuffix(": "))


def quantile(ascending: Sequence[float], share: float) -> float:
    """Return a quantile of ascending values, the nearest rank; 0 without values."""
    if not ascending:
        return 0.0
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)]
