"""Where signals come from changes; what runs does not: absent is not zero."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.packets import dropped
from tests.support.kube.pools import PoolHandle
from tests.support.kube.prometheus import stopped
from tests.support.load.load import Load

SCALING = {
    "mode": "Auto", "algorithm": "UtilizationBand", "minReplicas": 2, "maxReplicas": 4, "queueDepth": {"targetPerReplica": 64},
    "scaleDown": {"stabilizationSeconds": 5, "maxPercentPerMinute": 100},
}  # fmt: skip
BATCHING = {"mode": "Auto", "size": {"min": 4, "max": 8}}
RATE = 40
"""Two replicas carry it and one cannot, at any cap: t(4) = 130 ms, t(8) = 210 ms, 38 rows a second each."""


@contextmanager
def control_port_blocked(operator: InstalledOperator) -> Iterator[None]:
    """Drop what the operator's pod sends to port 8001 of any pod; the kubelet's probes go on."""
    address = operator.pods()[0]["status"]["podIP"]
    with dropped("FORWARD", "-s", address):
        yield


async def held(pool: PoolHandle, seconds: float, *fields: str) -> None:
    """Watch that the count stays for a while, and so does the cap where it is named."""
    before = pool.status()
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        now = pool.status()
        assert now["replicas"] == before["replicas"]
        for one in fields:
            assert now["batch"][one] == before["batch"][one]


@pytest.mark.own_cluster
@pytest.mark.parametrize("seconds", [15, pytest.param(120, marks=pytest.mark.long)])
async def test_lost_signals_move_nothing_and_come_back_alone(
    api: Api, operator: InstalledOperator, make_pool: MakePool, figure: Figure, seconds: int
) -> None:
    pool = make_pool(a=50, c=20, scaling=SCALING, batching=BATCHING)
    await asyncio.to_thread(pool.await_ready, 2)
    async with Load(pool.url(), pool.name, rate=RATE) as load:
        await load.next()
        await says(pool, "True", "FromPrometheus")
        pool.edit({"scaling": {"minReplicas": 1}})
        with stopped(api):
            await says(pool, "True", "ReadFromPods")
            await held(pool, seconds)
            with control_port_blocked(operator):
                await says(pool, "False", "NoSignals")
                await held(pool, seconds, "cap", "generation")
            await says(pool, "True", "ReadFromPods")
            await held(pool, 5)
        await says(pool, "True", "FromPrometheus")
        assert pool.status()["replicas"] == 2
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    assert operator.restarts() == 0
    figure(
        f"Prometheus off, then 8001 blocked, {seconds} s each at {RATE} requests/s:"
        f" 2 replicas throughout, lost {load.final.lost} of {load.final.sent}"
    )


async def says(pool: PoolHandle, status: str, reason: str) -> None:
    """Wait until the pool tells where its signals come from."""
    await asyncio.to_thread(pool.await_condition, "MetricsAvailable", status, reason, seconds=60)
