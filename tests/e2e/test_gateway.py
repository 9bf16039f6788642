"""A pool enters its namespace's gateway and leaves it under load; behind it killed pods and operators lose no request."""

import asyncio

import pytest

from penstock_api import names
from tests.e2e.conftest import Figure, MakePool
from tests.support.cluster.host import kernel
from tests.support.kube.api import Api, Object
from tests.support.kube.faults import prometheus
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle, until
from tests.support.load.load import Load

GATEWAY = {"routing": {"mode": "Gateway"}}
SERVICE = {"routing": {"mode": "Service"}}
KUBE_PROXY_SECONDS = 5.0
"""Time in which kube-proxy follows a Service: a client that connects before it keeps its pod."""


def service(api: Api, pool: PoolHandle) -> Object:
    current = api.get(f"/api/v1/namespaces/{pool.namespace}/services/{pool.name}")
    assert current is not None
    return current


def gateway(api: Api, pool: PoolHandle) -> Object | None:
    return api.get(f"/apis/apps/v1/namespaces/{pool.namespace}/deployments/{names.GATEWAY_NAME}")


async def test_a_pool_enters_and_leaves_its_gateway_under_load_without_loss(
    make_pool: MakePool, api: Api, figure: Figure
) -> None:
    pool = make_pool("routed", replicas=2)
    await asyncio.to_thread(pool.await_ready, 2)
    address = service(api, pool)["spec"]["clusterIP"]
    async with Load(pool.url(), pool.name, rate=40, clients=8) as load:
        await load.next()
        pool.edit(GATEWAY)
        took = await asyncio.to_thread(pool.await_condition, "Routed", "True", seconds=90)
        routed = service(api, pool)["spec"]
        assert routed["selector"] == {names.LABEL_GATEWAY: names.GATEWAY_NAME}
        assert routed["clusterIP"] == address
        for _ in range(10):
            await load.next()
        pool.edit(SERVICE)
        gone = await asyncio.to_thread(
            until, "the gateway is gone", lambda: gateway(api, pool) is None, seconds=120
        )
    assert service(api, pool)["spec"]["selector"] == {
        names.LABEL_POOL_UID: pool.get()["metadata"]["uid"]
    }
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    figure(
        f"gateway: 0 of {load.final.sent} requests lost; routed {took:.0f} s after the edit,"
        f" removed {gone:.0f} s after the next"
    )


def _is(values: list[float], expected: int) -> bool | str:
    return values == [expected] or f"{values}, expected {expected}"


@pytest.mark.alone
@pytest.mark.own_cluster
async def test_killed_pods_of_pool_and_operator_behind_the_gateway_lose_no_request(
    make_pool: MakePool, api: Api, operator: InstalledOperator, figure: Figure
) -> None:
    pool = make_pool("routed", replicas=2, **GATEWAY)
    await asyncio.to_thread(pool.await_ready, 2)
    await asyncio.to_thread(pool.await_condition, "Routed", "True", seconds=90)
    await asyncio.sleep(KUBE_PROXY_SECONDS)
    async with Load(pool.url(), pool.name, rate=40, clients=8) as load:
        for _ in range(3):
            await load.next()
        restarts = operator.restarts()
        for pod in (operator.pods()[0], pool.pods()[0]):
            pids = kernel.pod_processes(pod["metadata"]["uid"])
            assert pids, "the pod has no process on this machine"
            for pid in pids:
                kernel.kill(pid)
        await asyncio.to_thread(pool.await_ready, 2)
        await asyncio.to_thread(
            until, "the operator is back", lambda: operator.restarts() != restarts, seconds=90
        )
        for _ in range(3):
            await load.next()
    answers = f'sum(penstock_gateway_answers_total{{pool="{pool.name}",code="200"}})'
    await asyncio.to_thread(
        until,
        "Prometheus has the answers that both pods of the gateway counted",
        lambda: _is(prometheus.query(prometheus.url(api), answers), load.final.completed),
        seconds=60,
        every=1,
    )
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    figure(f"gateway: a pod and the operator killed: 0 of {load.final.sent} requests lost")
