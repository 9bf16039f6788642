"""A pool at zero: its gateway holds requests, the first one starts a replica, and none is lost whatever ends meanwhile."""

import asyncio
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.cluster import kernel
from tests.support.kube.api import Api, Object
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle, is_ready, until
from tests.support.load.samples import HEADERS, SampleRequest, sample_requests

REQUESTS, FEATURES = 200, 8
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


async def send(url: str, request: SampleRequest, ends: list[float]) -> str:
    """Send one request; return its status, or what was wrong with the answer."""
    limits = aiohttp.ClientTimeout(total=240)
    try:
        async with (
            aiohttp.ClientSession(timeout=limits) as session,
            session.post(url, data=request.body, headers=HEADERS) as answer,
        ):
            body = await answer.read()
            ends.append(time.monotonic())
            right = answer.status == 200 and request.accepts(body)
            return "right" if right else f"{answer.status} {body[:200]!r}"
    except (aiohttp.ClientError, TimeoutError) as error:
        return repr(error)


@pytest.mark.own_cluster
async def test_requests_at_zero_start_a_replica_and_are_all_answered(
    make_pool: MakePool, api: Api, operator: InstalledOperator, figure: Figure
) -> None:
    pool = make_pool("sparse", routing={"mode": "Gateway"}, scaling=SCALING)
    await asyncio.to_thread(pool.await_condition, "Routed", "True", seconds=120)
    await asyncio.to_thread(pool.await_condition, "Ready", "True", "IdleAtZero", seconds=120)
    await asyncio.to_thread(until, "no pod is left", lambda: not pool.pods(), seconds=60)
    url = f"{pool.url()}/v2/models/{pool.name}/infer"
    ends: list[float] = []
    began = time.monotonic()
    requests = islice(cycle(sample_requests(1, 1, FEATURES)), REQUESTS)
    waiting = [asyncio.create_task(send(url, request, ends)) for request in requests]
    await asyncio.to_thread(
        until, "the operator decides", lambda: replicas(api, pool) == 1, seconds=20, every=0.02
    )
    decided = time.monotonic() - began
    for pid in controllers(gateway_pods(api, pool)):
        kernel.kill(pid)
    await asyncio.to_thread(
        until, "a pod is ready", lambda: any(map(is_ready, pool.pods())), seconds=90, every=0.02
    )
    ready = time.monotonic()
    answers = Counter(await asyncio.gather(*waiting))
    assert answers == {"right": REQUESTS}
    assert decided < DECISION_SECONDS
    figure(
        f"zero: {REQUESTS} held, all answered, both controllers of the gateway killed meanwhile; decided after"
        f" {decided:.2f} s, ready after {ready - began:.1f} s, first answer {(min(ends) - ready) * 1000:.0f} ms later"
    )
