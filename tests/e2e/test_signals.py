"""A change of the signals' source, or their absence, changes neither replicas nor cap."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api
from tests.support.kube.faults.packets import dropped
from tests.support.kube.faults.prometheus import stopped
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle
from tests.support.load.load import Load

SCALING = {
    "mode": "Auto", "algorithm": "UtilizationBand", "minReplicas": 2, "maxReplicas": 4, "queueDepth": {"targetPerReplica": 64},
    "scaleDown": {"stabilizationSeconds": 5, "maxPercentPerMinute": 100},
}  # fmt: skip
BATCHING = {"mode": "Auto", "size": {"min": 4, "max": 8}}
RATE = 40
"""Load for two replicas, not one, at any cap: t(4) = 130 ms, t(8) = 210 ms, 38 rows/s each."""


@contextmanager
def control_port_blocked(operator: InstalledOperator) -> Iterator[None]:
    """Drop packets from the operator's pod to port 8001 of any pod; the kubelet's probes still pass."""
    address = operator.pods()[0]["status"]["podIP"]
    with dropped("FORWARD", "-s", address):
        yield


async def assert_unchanged(pool: PoolHandle, seconds: float, *fields: str) -> None:
    """Assert for a while that the count and the named batch fields do not change."""
    before = pool.status()
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        now = pool.status()
        assert now["replicas"] == before["replicas"]
        for field in fields:
            assert now["batch"][field] == before["batch"][field]


@pytest.mark.alone
@pytest.mark.own_cluster
@pytest.mark.usefixtures("no_crash_loop")
@pytest.mark.parametrize("seconds", [15, pytest.param(120, marks=pytest.mark.long)])
async def test_lost_signals_change_nothing_and_recover_automatically(
    api: Api, operator: InstalledOperator, make_pool: MakePool, figure: Figure, seconds: int
) -> None:
    pool = make_pool(a=50, c=20, scaling=SCALING, batching=BATCHING)
    await asyncio.to_thread(pool.await_ready, 2)
    async with Load(pool.url(), pool.name, rate=RATE) as load:
        await load.next()
        await await_source(pool, "True", "FromPrometheus")
        pool.edit({"scaling": {"minReplicas": 1}})
        with stopped(api):
            await await_source(pool, "True", "ReadFromPods")
            await assert_unchanged(pool, seconds)
            with control_port_blocked(operator):
                await await_source(pool, "False", "NoSignals")
                await assert_unchanged(pool, seconds, "cap", "generation")
            await await_source(pool, "True", "ReadFromPods")
            await assert_unchanged(pool, 5)
        await await_source(pool, "True", "FromPrometheus")
        assert pool.status()["replicas"] == 2
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    figure(
        f"Prometheus off, then 8001 blocked, {seconds} s each at {RATE} requests/s:"
        f" 2 replicas throughout, lost {load.final.lost} of {load.final.sent}"
    )


async def await_source(pool: PoolHandle, status: str, reason: str) -> None:
    """Wait until the pool reports this source of its signals."""
    await asyncio.to_thread(pool.await_condition, "MetricsAvailable", status, reason, seconds=60)
