"""Two pools share a budget of four GPUs when they need seven: weights, minimums, stability and live edits."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api
from tests.support.kube.pools import LABEL_POOL_UID, PoolHandle, until
from tests.support.load.load import Load

POLICY_NAME = "e2e-budget"
POLICY_PATH = f"/apis/penstock.dev/v1alpha1/inferencepolicies/{POLICY_NAME}"
GPU = "nvidia.com/gpu"
SCALING = {
    "mode": "Auto", "minReplicas": 1, "algorithm": "CapacityAtObjective",
    "scaleDown": {"stabilizationSeconds": 20, "maxPercentPerMinute": 100},
}  # fmt: skip
"""Stabilization of only 20 s, so that stable counts are due to the law and the division of the budget."""
OBJECTIVES = [{"metric": "RequestLatency", "milliseconds": 10_000}]
BATCHING = {"size": {"min": 4, "max": 4}, "maxQueueDepth": 16}
HEAVY, LIGHT = 4, 3
"""Maximum replicas of each pool; t(4) = 3 s, so that a replica serves 1.3 requests/s."""
RATE = 7.0

pytestmark = [pytest.mark.own_cluster, pytest.mark.long]


def budget(count: int) -> dict[str, object]:
    return {"gpuBudgets": [{"resourceName": GPU, "count": count}]}


@pytest.fixture
def policy(api: Api, namespace: str) -> Iterator[str]:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePolicy"}
    spec = {"namespaceSelector": selector, **budget(4)}
    api.apply({**head, "metadata": {"name": POLICY_NAME}, "spec": spec})
    yield POLICY_PATH
    api.delete(POLICY_PATH)


@pytest.fixture
def pools(policy: str, make_pool: MakePool) -> tuple[PoolHandle, PoolHandle]:
    def make(name: str, most: int, weight: int) -> PoolHandle:
        scaling = {**SCALING, "maxReplicas": most}
        more = {
            "scaling": scaling,
            "batching": BATCHING,
            "objectives": OBJECTIVES,
            "accelerators": 1,
        }
        return make_pool(name, a=1000, c=500, weight=weight, **more)

    heavy, light = make("heavy", HEAVY, 300), make("light", LIGHT, 100)
    heavy.await_ready(1)
    light.await_ready(1)
    return heavy, light


def allocated_gpus(pool: PoolHandle) -> int:
    """Return the GPUs allocated to the pool's pods, including terminating ones."""
    uid = pool.get()["metadata"]["uid"]
    path = f"/api/v1/namespaces/{pool.namespace}/pods?labelSelector={LABEL_POOL_UID}%3D{uid}"
    running = [pod for pod in pool.api.list(path) if pod["spec"].get("nodeName")]
    return len([pod for pod in running if pod["status"]["phase"] not in ("Succeeded", "Failed")])


def deployed_replicas(*pools: PoolHandle) -> tuple[int, ...]:
    """Return the replica counts of the Deployments."""
    each = [pool.api.request("GET", pool.children["Deployment"]) for pool in pools]
    return tuple(int(deployment["spec"]["replicas"]) for deployment in each)


def await_replicas(
    pools: tuple[PoolHandle, PoolHandle], wanted: tuple[int, int], seconds: float = 150
) -> float:
    def probe() -> bool | str:
        now = deployed_replicas(*pools)
        assert sum(map(allocated_gpus, pools)) <= 7
        return (now == wanted and tuple(map(allocated_gpus, pools)) == wanted) or f"{now}"

    return until(f"replicas {wanted}", probe, seconds=seconds)


async def watch(pools: tuple[PoolHandle, PoolHandle], seconds: float) -> None:
    """Check for a while that no count changes, and that no more devices are allocated than granted."""
    before, ends = deployed_replicas(*pools), time.monotonic() + seconds
    while time.monotonic() < ends:
        assert deployed_replicas(*pools) == before
        assert sum(map(allocated_gpus, pools)) <= sum(before)
        await asyncio.sleep(1)


def _reported(api: Api, light: PoolHandle) -> bool | str:
    """Return True once the demand under load is reported on the pool and on the policy."""
    message = light.condition("BudgetLimited").get("message", "")
    (spent,) = api.request("GET", POLICY_PATH)["status"]["budgets"]
    whole = (spent["wanted"], spent["granted"]) == (HEAVY + LIGHT, 4)
    return (
        f"3 replicas (3 {GPU}) requested, 1 (1) granted" in message and whole
    ) or f"{message}, {spent}"


async def assert_budget_divided(
    api: Api, pools: tuple[PoolHandle, PoolHandle], figure: Figure, seconds: float
) -> None:
    heavy, light = pools
    async with (
        Load(heavy.url(), heavy.name, rate=RATE) as load,
        Load(light.url(), light.name, rate=RATE, seed=2) as other,
    ):
        took = await asyncio.to_thread(await_replicas, pools, (3, 1))
        figure(f"7 GPUs requested of 4: divided 3 to 1 by weight after {took:.0f} s")
        heavy.await_condition("BudgetLimited", "True", "BudgetShort", seconds=20)
        await asyncio.to_thread(
            until, "all seven requested", lambda: _reported(api, light), seconds=60
        )
        await watch(pools, seconds)
        api.merge(POLICY_PATH, {"spec": budget(2)})
        took = await asyncio.to_thread(await_replicas, pools, (1, 1))
        figure(f"budget 4 -> 2: both pools at their minimum, drained, after {took:.0f} s")
        api.merge(POLICY_PATH, {"spec": budget(7)})
        took = await asyncio.to_thread(await_replicas, pools, (HEAVY, LIGHT))
        figure(f"budget 2 -> 7: all requested replicas after {took:.0f} s")
        await watch(pools, seconds / 5)
        light.await_condition("BudgetLimited", "False", "WithinBudget", seconds=20)
        assert "status.desiredReplicas" not in str(light.status().get("bounded"))
    for each in (load, other):
        assert (each.final.lost, each.final.wrong) == (0, 0), each.final.notes


@pytest.mark.timeout(480)
async def test_shares_follow_weights_and_minimums_and_the_budget_is_edited_live(
    api: Api, pools: tuple[PoolHandle, PoolHandle], figure: Figure
) -> None:
    await assert_budget_divided(api, pools, figure, seconds=20)


@pytest.mark.timeout(1200)
async def test_counts_stay_stable_for_ten_minutes(
    api: Api, pools: tuple[PoolHandle, PoolHandle], figure: Figure
) -> None:
    await assert_budget_divided(api, pools, figure, seconds=600)
