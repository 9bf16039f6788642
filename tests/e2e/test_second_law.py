"""`CapacityAtObjective` on the cluster: replicas follow a step while the cap stays, and bad signals cause no wrong-way move."""

import asyncio
from itertools import pairwise

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api
from tests.support.kube.faults import prometheus
from tests.support.kube.faults.nan_prometheus import nan_prometheus, queried_for_namespace
from tests.support.kube.faults.packets import not_ready
from tests.support.kube.pools import PoolHandle, is_ready, until
from tests.support.load.load import Load

SCALING = {
    "mode": "Auto", "algorithm": "CapacityAtObjective", "minReplicas": 1, "maxReplicas": 3,
    "scaleDown": {"stabilizationSeconds": 10, "maxPercentPerMinute": 100},
}  # fmt: skip
BATCHING = {"size": {"min": 1, "max": 64}}
OBJECTIVES = [{"metric": "RequestLatency", "milliseconds": 600}]
SLOW_START = {
    "source": {"type": "Module", "module": {
        "factory": "penstock_runtime.models.emulated:create",
        "arguments": {"a_milliseconds": "50", "c_milliseconds": "20", "load_seconds": "15"},
    }},
}  # fmt: skip
"""Two batches of 10 rows fit the objective, at 40 rows/s."""
TOLERANCE = 1.3
"""Tolerance of the fit, and with it of the plan, as a factor."""


@pytest.mark.long
async def test_replicas_follow_a_step_and_the_cap_stays_as_planned(
    make_pool: MakePool, figure: Figure
) -> None:
    pool = make_pool(model=SLOW_START, scaling=SCALING, batching=BATCHING, objectives=OBJECTIVES)
    await asyncio.to_thread(pool.await_ready, 1, seconds=120)
    async with Load(pool.url(), pool.name, rate=5) as load:
        await load.next()
        await asyncio.to_thread(until, "a planned cap", lambda: _cap(pool) > 5, seconds=60)
        planned = _cap(pool)
        await load.set_rate(70)
        seen = await _observed(pool)
        await load.set_rate(3)
        await asyncio.to_thread(pool.await_ready, 1, seconds=240)
    caps = [cap for cap, _, _ in seen]
    assert max(caps) <= TOLERANCE * planned, f"planned {planned}, seen {seen}"
    counts = [wanted for _, _, wanted in seen]
    assert all(after >= before for before, after in pairwise(counts)), counts
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    figure(
        f"load 5 -> 70 -> 3 requests/s: cap {planned}, then {min(caps)} to {max(caps)};"
        f" {counts[-1]} replicas; lost {load.final.lost} of {load.final.sent}"
    )


async def _observed(pool: PoolHandle) -> list[tuple[int, int, int]]:
    """Record (cap, ready, desired) until more replicas are Ready."""
    seen: list[tuple[int, int, int]] = []

    def settled() -> bool | str:
        status = pool.status()
        observed = (_cap(pool), status.get("readyReplicas", 0), status.get("desiredReplicas", 1))
        seen.extend([observed] if not seen or seen[-1] != observed else [])
        _, ready, wanted = observed
        return (wanted > 1 and ready >= wanted) or str(observed)

    await asyncio.to_thread(until, "replicas Ready", settled, seconds=150)
    return seen


def _cap(pool: PoolHandle) -> int:
    published: int = pool.status().get("batch", {}).get("cap", 0)
    return published


STEADY = {**SCALING, "minReplicas": 2, "maxReplicas": 4}
RATE = 40
"""Load for two replicas, not one: t(8) = 210 ms, 38 rows/s each."""


@pytest.mark.own_cluster
@pytest.mark.long
@pytest.mark.parametrize("seconds", [12, 120])
async def test_stale_series_and_a_pod_that_is_not_ready_cause_no_wrong_way_move(
    api: Api, make_pool: MakePool, figure: Figure, seconds: int
) -> None:
    """llm-d-autoscaling#368 and aibrix#617: stale series oscillate, one NotReady pod stalls the pool."""
    batching = {"size": {"min": 8, "max": 8}}
    pool = make_pool(a=50, c=20, scaling=STEADY, batching=batching)
    await asyncio.to_thread(pool.await_ready, 2, seconds=120)
    async with Load(pool.url(), pool.name, rate=RATE) as load:
        await load.next()
        await _await_source(pool, "FromPrometheus")
        pool.edit({"scaling": {"minReplicas": 1}})
        with prometheus.not_scraping(api):
            await _await_source(pool, "ReadFromPods")
            await _never_fewer(pool, seconds)
        await _await_source(pool, "FromPrometheus")
        with not_ready(pool.pods()[0]["status"]["podIP"]):
            await asyncio.to_thread(until, "one NotReady", lambda: _ready(pool) < 2, seconds=90)
            await _never_fewer(pool, min(seconds, 20))
        await asyncio.to_thread(until, "Ready again", lambda: _ready(pool) >= 2, seconds=90)
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    figure(f"series stale for {seconds} s, one pod NotReady: never under 2 replicas, none lost")


@pytest.mark.own_cluster
@pytest.mark.long
async def test_a_prometheus_that_returns_nan_causes_no_wrong_way_move(
    api: Api, make_pool: MakePool, figure: Figure
) -> None:
    """dynamo#6985: NaN must not change the scale, neither up nor down."""
    batching = {"size": {"min": 8, "max": 8}}
    pool = make_pool(a=50, c=20, scaling=STEADY, batching=batching)
    await asyncio.to_thread(pool.await_ready, 2, seconds=120)
    with nan_prometheus(prometheus.url(api)) as server:
        async with Load(pool.url(), pool.name, rate=RATE) as load:
            await load.next()
            with queried_for_namespace(api, pool.namespace, server):
                await asyncio.to_thread(
                    until, "it queried the proxy", lambda: server.series_answers >= 30, seconds=120
                )
                pool.edit({"scaling": {"minReplicas": 1}})
                count = await _settled(pool, 15)
                with server.spoiling():
                    await asyncio.to_thread(until, "NaN reported", lambda: _blind(pool), seconds=60)
                    assert pool.status()["desiredReplicas"] >= count
                    count = pool.status()["desiredReplicas"]
                    await _stays(pool, count, 40)
                await _await_source(pool, "FromPrometheus")
                await _never_fewer(pool, 10)
    assert server.spoiled >= 8
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    figure(f"every value NaN for 40 s: {count} replicas throughout, lost 0 of {load.final.sent}")


def _blind(pool: PoolHandle) -> bool | str:
    available = pool.condition("MetricsAvailable")
    return (available["status"], available["reason"]) == ("False", "NoSignals") or str(available)


async def _settled(pool: PoolHandle, seconds: int) -> int:
    """Return the count once it has been stable for a while."""
    counts: list[int] = []
    while len(counts) < seconds or len(set(counts[-seconds:])) > 1:
        assert len(counts) < 120, counts
        await asyncio.sleep(1)
        counts.append(pool.status()["desiredReplicas"])
    return counts[-1]


async def _stays(pool: PoolHandle, count: int, seconds: int) -> None:
    for _ in range(seconds):
        await asyncio.sleep(1)
        assert pool.status()["desiredReplicas"] == count


def _ready(pool: PoolHandle) -> int:
    return sum(map(is_ready, pool.pods()))


async def _await_source(pool: PoolHandle, reason: str) -> None:
    await asyncio.to_thread(pool.await_condition, "MetricsAvailable", "True", reason, seconds=60)


async def _never_fewer(pool: PoolHandle, seconds: float) -> None:
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        assert pool.status()["desiredReplicas"] >= 2
