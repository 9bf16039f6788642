"""Pods that a scale-down or a rollout stops leave no Warning Event, and no request is lost."""

import asyncio
from collections import Counter

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle
from tests.support.load.load import Load


def warnings(api: Api, pool: PoolHandle) -> Counter[str]:
    """Count the Warning Events on pods, by pod and text."""
    events: list[Object] = api.list(f"/api/v1/namespaces/{pool.namespace}/events")
    counts: Counter[str] = Counter()
    for event in events:
        if event["type"] == "Warning" and event["involvedObject"]["kind"] == "Pod":
            text = f"{event['involvedObject']['name']}: {event['reason']}: {event['message']}"
            counts[text] += event.get("count") or 1
    return counts


def on(counts: Counter[str], pods: set[str]) -> list[str]:
    """Return the Events on these pods."""
    return [text for text in counts.elements() if text.partition(":")[0] in pods]


async def test_a_scale_down_under_load_leaves_no_warning_and_loses_no_request(
    api: Api, make_pool: MakePool, figure: Figure
) -> None:
    pool = make_pool(a=10, c=2, replicas=4)
    await asyncio.to_thread(pool.await_ready, 4, seconds=120)
    stopped = pool.pod_names()
    async with Load(pool.url(), pool.name, rate=40) as load:
        await load.next()
        before = warnings(api, pool)  # of pods that loaded their model
        pool.edit({"replicas": 1})
        await asyncio.to_thread(pool.await_ready, 1)
        await asyncio.to_thread(pool.await_none_terminating)
    stopped -= pool.pod_names()
    assert len(stopped) == 3
    assert (load.final.lost, load.final.wrong, load.final.refused) == (0, 0, 0), load.final.notes
    assert on(warnings(api, pool) - before, stopped) == []
    figure(f"scale-down 4 -> 1 at 40 requests/s: lost 0 of {load.final.sent}, no Warning Event")


async def test_a_rollout_under_load_leaves_no_warning_on_the_pods_that_it_replaces(
    api: Api, make_pool: MakePool, figure: Figure
) -> None:
    pool = make_pool(a=10, c=2, replicas=2)
    await asyncio.to_thread(pool.await_ready, 2, seconds=120)
    replaced = pool.pod_names()
    async with Load(pool.url(), pool.name, rate=30) as load:
        await load.next()
        before = warnings(api, pool)
        pool.edit({"template": {"annotations": {"example.com/rolled": "yes"}}})
        await asyncio.to_thread(pool.await_condition, "Progressing", "True")
        await asyncio.to_thread(
            pool.await_condition, "Progressing", "False", "Settled", seconds=120
        )
        await asyncio.to_thread(pool.await_none_terminating)
    assert not replaced & pool.pod_names()
    assert (load.final.lost, load.final.wrong, load.final.refused) == (0, 0, 0), load.final.notes
    assert on(warnings(api, pool) - before, replaced) == []
    figure(f"rollout of 2 pods at 30 requests/s: lost 0 of {load.final.sent}, no Warning Event")
