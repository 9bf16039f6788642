"""A change of the template rolls the pods under load without a lost request."""

import asyncio

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api
from tests.support.kube.install import Images
from tests.support.kube.nodes.devices import GPU, occupied_devices
from tests.support.kube.pools import PoolHandle, is_ready, until
from tests.support.load.load import Load


async def test_a_rolling_update_under_load_loses_no_request(
    steady: PoolHandle, figure: Figure
) -> None:
    old = steady.pod_names()

    def rolled() -> bool | str:
        new = steady.pod_names()
        ready = steady.status().get("readyReplicas")
        return (
            not new & old and len(new) == 2 and ready == 2
        ) or f"{new} after {old}, {ready} ready"

    async with Load(steady.url(), steady.name, rate=30) as load:
        await load.next()
        steady.edit({"template": {"annotations": {"example.com/rolled": "yes"}}})
        await asyncio.to_thread(until, "both pods replaced", rolled, seconds=90)
        await asyncio.to_thread(steady.await_condition, "Progressing", "False")
        await asyncio.sleep(
            8
        )  # the last old pod drains: its endpoint is removed, its connections are still open
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    assert load.final.refused == 0
    assert load.final.completed == load.final.sent > 200
    answered = set(load.final.pods)
    assert answered & old, "no pod of before the rollout answered"
    assert answered - old, "no pod of the rollout answered"
    figure(f"rolling update at 30 requests/s: lost {load.final.lost} of {load.final.sent}")


@pytest.mark.own_cluster
@pytest.mark.long
async def test_a_rollout_without_a_free_gpu_replaces_one_pod_at_a_time_and_loses_no_request(
    api: Api, make_pool: MakePool, namespace: str, images: Images, figure: Figure
) -> None:
    with occupied_devices(api, namespace, images.runtime, 6):
        await replaced_without_loss(api, make_pool, figure)


async def replaced_without_loss(api: Api, make_pool: MakePool, figure: Figure) -> None:
    pool = make_pool("full", replicas=2, accelerator={"resourceName": GPU, "count": 1})
    await asyncio.to_thread(pool.await_ready, 2, seconds=150)
    old = pool.pod_names()

    def rolled() -> bool | str:
        new = pool.pod_names()
        ready = sum(map(is_ready, pool.pods()))
        return (not new & old and len(new) == ready == 2) or f"{new} after {old}, {ready} ready"

    async with Load(pool.url(), pool.name, rate=10) as load:
        await load.next()
        pool.edit({"template": {"annotations": {"example.com/rolled": "yes"}}})
        took = await asyncio.to_thread(until, "both pods replaced", rolled, seconds=200)
        await asyncio.sleep(8)
    assert took > 25
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    events = api.list(f"/api/v1/namespaces/{pool.namespace}/events")
    assert "ReplacingWithoutSurge" in {event["reason"] for event in events}
    figure(
        f"rollout of 2 pods on full GPUs: {took:.0f} s, lost {load.final.lost} of {load.final.sent}"
    )


def test_an_evicted_only_replica_drains_within_its_deadline_and_is_replaced(
    api: Api, make_pool: MakePool
) -> None:
    pool = make_pool(replicas=1)
    pool.await_ready(1)
    (name,) = pool.pod_names()
    budget = pool.children["PodDisruptionBudget"]
    until(
        "the budget allows one disruption",
        lambda: api.request("GET", budget)["status"].get("disruptionsAllowed") == 1,
    )
    path = f"/api/v1/namespaces/{pool.namespace}/pods/{name}"
    meta = {"name": name, "namespace": pool.namespace}
    head = {"apiVersion": "policy/v1", "kind": "Eviction"}
    api.request("POST", f"{path}/eviction", {**head, "metadata": meta})
    deadline = 20 + 5 + 15  # drain.deadlineSeconds of make_pool, plus the rest of the grace period
    assert until("the evicted pod gone", lambda: api.get(path) is None, seconds=60) < deadline
    pool.await_ready(1)
