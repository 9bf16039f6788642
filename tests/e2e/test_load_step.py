"""Cap and replicas rise and fall with the load, and no request is lost."""

import asyncio

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.pools import PoolHandle, until
from tests.support.load.load import Load

SCALING = {
    "mode": "Auto",
    "algorithm": "UtilizationBand",
    "minReplicas": 1,
    "maxReplicas": 3,
    "queueDepth": {"targetPerReplica": 8},
    "scaleDown": {"stabilizationSeconds": 5, "maxPercentPerMinute": 100},
}
BATCHING = {"size": {"min": 2, "max": 16}, "maxQueueDelayMilliseconds": 10}
OBJECTIVES = [{"metric": "RequestLatency", "milliseconds": 2000}]


def cap(pool: PoolHandle) -> int:
    """Return the published batch cap."""
    published_cap: int = pool.status().get("batch", {}).get("cap", 0)
    return published_cap


async def test_cap_and_replicas_follow_the_load_and_no_request_is_lost(
    make_pool: MakePool, figure: Figure
) -> None:
    pool = make_pool(a=50, c=20, scaling=SCALING, batching=BATCHING, objectives=OBJECTIVES)
    took = await asyncio.to_thread(pool.await_ready, 1)
    figure(f"apply to Ready: {took:.1f} s")
    assert cap(pool) == 2
    async with Load(pool.url(), pool.name, rate=5) as load:
        await load.next()
        await load.set_rate(60)
        await asyncio.to_thread(
            until, "three replicas ready", lambda: pool.status()["readyReplicas"] >= 3, seconds=60
        )
        await asyncio.to_thread(until, "the cap above its first", lambda: cap(pool) > 2, seconds=60)
        decision = pool.status()["lastDecision"]
        await load.set_rate(3)
        await asyncio.to_thread(pool.await_ready, 1, seconds=150)
    assert decision["message"]
    assert decision["algorithm"] == "UtilizationBand"
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    assert load.final.completed + load.final.refused == load.final.sent
    figure(
        f"load 5 -> 60 -> 3 requests/s: lost {load.final.lost} of {load.final.sent}, rejected {load.final.refused}"
    )
