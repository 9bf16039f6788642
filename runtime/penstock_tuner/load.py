"""Closed-loop load on a pod: each client sends its next request when the last one has ended. Does I/O."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import aiohttp

from penstock_tuner.errors import NoRequest
from penstock_tuner.settings import LoadMeasurement

FLOATS = frozenset({"FP16", "FP32", "FP64", "BF16"})
TEXT = "The quick brown fox jumps over the lazy dog."
MAX_REQUEST_SECONDS = 60.0
REFUSED_PAUSE_SECONDS = 0.02
"""Pause of a client after a rejection, which costs the pod next to nothing."""


def sample_request(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return an Open Inference request of one row for a model with this metadata.

    Raises:
        NoRequest: a dimension other than the rows is unknown.
    """
    inputs: Sequence[Mapping[str, Any]] = metadata["inputs"]
    if inputs and inputs[0]["datatype"] == "BYTES":  # texts, which stand for the tokens
        return {"inputs": [{**_named(inputs[0]), "shape": [1], "data": [TEXT]}]}
    return {"inputs": [_filled(tensor) for tensor in inputs]}


def _named(tensor: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": tensor["name"], "datatype": tensor["datatype"]}


def _filled(tensor: Mapping[str, Any]) -> dict[str, Any]:
    _, *rest = tensor["shape"]
    if any(size < 1 for size in rest):
        raise NoRequest(
            f"input {tensor['name']} has the shape {tensor['shape']}, of which only the rows may vary:"
            " give a request by --request FILE"
        )
    count = 1
    for size in rest:
        count *= size
    value: object = 0.5 if tensor["datatype"] in FLOATS else 1
    return {**_named(tensor), "shape": [1, *rest], "data": [value] * count}


class ClosedLoop:
    """Clients that keep a pod busy, and count what ends within a window."""

    def __init__(self, url: str, request: Mapping[str, Any], objective_seconds: float) -> None:
        """`url` is that of inference."""
        self._url = url
        self._request = request
        self._objective_seconds = objective_seconds

    async def measure(self, clients: int, settle_seconds: float, seconds: float) -> LoadMeasurement:
        """Return what ended in `seconds` after `settle_seconds` of the same load."""
        begin = time.perf_counter() + settle_seconds
        latencies: list[float] = []
        failed = 0

        async def client() -> None:
            nonlocal failed
            while (sent := time.perf_counter()) < begin + seconds:
                good = await self._send(session)
                ended = time.perf_counter()
                counted = begin <= ended < begin + seconds
                if good and counted:
                    latencies.append(ended - sent)
                failed += counted and not good
                if not good:
                    await asyncio.sleep(REFUSED_PAUSE_SECONDS)

        timeout = aiohttp.ClientTimeout(total=MAX_REQUEST_SECONDS)
        connector = aiohttp.TCPConnector(limit=clients)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(clients):
                group.create_task(client())
        latencies.sort()
        return LoadMeasurement(
            seconds=seconds,
            completed=len(latencies),
            on_time=sum(latency <= self._objective_seconds for latency in latencies),
            failed=failed,
            p50_milliseconds=1000 * quantile(latencies, 0.5),
            p99_milliseconds=1000 * quantile(latencies, 0.99),
        )

    async def _send(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.post(self._url, json=self._request) as answer:
                await answer.read()
                return answer.status == HTTPStatus.OK
        except (aiohttp.ClientError, TimeoutError):
            return False


def quantile(ascending: Sequence[float], share: float) -> float:
    """Return a quantile of ascending values, the nearest rank; 0 without values."""
    if not ascending:
        return 0.0
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)]
