"""A pool at zero: its gateway holds requests, the first one starts a replica, and none is lost whatever ends meanwhile."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.cluster.host import kernel
from tests.support.kube.api import Api, Object
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle, is_ready, until
from tests.support.load.samples import HEADERS, SampleRequest, sample_requests

REQUESTS, MANY_REQUESTS, FEATURES = 200, 1000, 8
SCALING = {"mode": "Auto", "minReplicas": 0, "maxReplicas": 2, "scaleToZero": {"idleSeconds": 30}}
DECISION_SECONDS = 3.0
"""Bound of the operator's decision on a busy machine; the figure has the time."""


def replicas(api: Api, pool: PoolHandle) -> int:
    deployment = api.get(pool.children["Deployment"])
    assert deployment is not None
    return int(deployment["spec"]["replicas"])


def gateway_pods(api: Api, pool: PoolHandle) -> list[Object]:
    path = f"/api/v1/namespaces/{pool.namespace}/pods?labelSelector=penstock.dev%2Fgateway"
    return api.list(path)


def controllers(pods: list[Object]) -> list[int]:
    """Return the processes of gateways' controllers, without those of Envoy."""
    pids = [pid for pod in pods for pid in kernel.pod_processes(pod["metadata"]["uid"])]
    command = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}
    return [pid for pid, words in command.items() if b"penstock_gateway" in words]


async def send(
    url: str, request: SampleRequest, ends: list[float], headers: Mapping[str, str] = HEADERS
) -> str:
    """Send one request; return its status, or what was wrong with the answer."""
    limits = aiohttp.ClientTimeout(total=240)
    try:
        async with (
            aiohttp.ClientSession(timeout=limits) as session,
            session.post(url, data=request.body, headers=headers) as answer,
        ):
            body = await answer.read()
            ends.append(time.monotonic())
            right = answer.status == 200 and request.accepts(body)
            return "right" if right else f"{answer.status} {body[:200]!r}"
    except (aiohttp.ClientError, TimeoutError) as error:
        return repr(error)


async def idle_pool(make_pool: MakePool) -> PoolHandle:
    """Return a routed pool that is at zero; its model takes 2 + b ms, so that times are those of the way to it."""
    pool = make_pool("sparse", a=2, c=1, routing={"mode": "Gateway"}, scaling=SCALING)
    await asyncio.to_thread(pool.await_condition, "Routed", "True", seconds=120)
    await asyncio.to_thread(pool.await_condition, "Ready", "True", "IdleAtZero", seconds=120)
    await asyncio.to_thread(until, "no pod is left", lambda: not pool.pods(), seconds=60)
    return pool


def requests_of(pool: PoolHandle, number: int) -> tuple[str, list[SampleRequest]]:
    """Return the URL of the pool's model, and requests to it."""
    url = f"{pool.url()}/v2/models/{pool.name}/infer"
    return url, list(islice(cycle(sample_requests(1, 1, FEATURES)), number))


async def await_a_ready_pod(pool: PoolHandle) -> float:
    """Return the last time at which no pod was Ready."""
    looks: list[float] = []

    def look() -> bool:
        looks.append(time.monotonic())
        return any(map(is_ready, pool.pods()))

    await asyncio.to_thread(until, "a pod is ready", look, seconds=90, every=0.01)
    return looks[-2]


def last_start(pool: PoolHandle) -> dict[str, float]:
    """Return the parts of the pool's last start, in seconds, once its status has them."""

    def parts() -> Any:
        return pool.status().get("scaling", {}).get("lastStart")

    until("the start is reported", parts, seconds=120)
    return {part: float(seconds) for part, seconds in parts().items()}


@pytest.mark.own_cluster
async def test_requests_at_zero_start_a_replica_and_are_all_answered(
    make_pool: MakePool, api: Api, operator: InstalledOperator, figure: Figure
) -> None:
    pool = await idle_pool(make_pool)
    url, requests = requests_of(pool, REQUESTS)
    ends: list[float] = []
    began = time.monotonic()
    waiting = [asyncio.create_task(send(url, request, ends)) for request in requests]
    await asyncio.to_thread(
        until, "the operator decides", lambda: replicas(api, pool) == 1, seconds=20, every=0.02
    )
    decided = time.monotonic() - began
    for pid in controllers(gateway_pods(api, pool)):
        kernel.kill(pid)
    ready = await await_a_ready_pod(pool)
    answers = Counter(await asyncio.gather(*waiting))
    assert answers == {"right": REQUESTS}
    assert decided < DECISION_SECONDS
    figure(
        f"zero: {REQUESTS} held, all answered, both controllers of the gateway killed meanwhile; decided after"
        f" {decided:.2f} s, ready after {ready - began:.1f} s, first answer {(min(ends) - ready) * 1000:.0f} ms later"
    )


@pytest.mark.long
@pytest.mark.own_cluster
async def test_a_thousand_requests_at_zero_are_answered_in_the_order_of_their_priority(
    make_pool: MakePool, api: Api, operator: InstalledOperator, figure: Figure
) -> None:
    """The urgent half comes last; each of the two gateways releases its own part in order."""
    pool = await idle_pool(make_pool)
    url, requests = requests_of(pool, MANY_REQUESTS)
    ends: dict[str, list[float]] = {"10": [], "1": []}
    half, waiting = MANY_REQUESTS // 2, []
    began = time.monotonic()
    for priority, part in (("10", requests[:half]), ("1", requests[half:])):
        headers = {**HEADERS, "X-Penstock-Priority": priority}
        waiting += [
            asyncio.create_task(send(url, request, ends[priority], headers)) for request in part
        ]
    ready = await await_a_ready_pod(pool)
    answers = Counter(await asyncio.gather(*waiting))
    assert answers == {"right": MANY_REQUESTS}
    assert max(ends["1"]) < median(ends["10"])
    first, parts = min(*ends["1"], *ends["10"]), await asyncio.to_thread(last_start, pool)
    assert sum(parts.values()) == pytest.approx(first - began, abs=2)
    figure(
        f"zero: {MANY_REQUESTS} held, all answered; ready after {ready - began:.1f} s, first answer"
        f" {(first - ready) * 1000:.0f} ms later, the urgent half by {max(ends['1']) - ready:.1f} s,"
        f" the other by {max(ends['10']) - ready:.1f} s; parts of the start: {parts}"
    )
