"""Policies on the real API server: live budgets, invalid schedules, and records of good settings."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock_api import names
from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api, Object
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, until

pytestmark = [pytest.mark.integration, pytest.mark.long]

GPU = "nvidia.com/gpu"
PATH = "/apis/penstock.dev/v1alpha1/inferencepolicies/pools-policy"


@contextmanager
def policy(api: Api, namespace: str, **spec: object) -> Iterator[None]:
    """A policy that selects only this namespace."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePolicy"}
    metadata = {"name": "pools-policy"}
    api.apply({**head, "metadata": metadata, "spec": {"namespaceSelector": selector, **spec}})
    try:
        yield
    finally:
        api.delete(PATH)


def budget(count: int) -> Object:
    return {"gpuBudgets": [{"resourceName": GPU, "count": count}]}


def await_replicas(pools: list[PoolHandle], *wanted: int, seconds: float = 30) -> None:
    def probe() -> bool | str:
        each = [pool.api.get(pool.children["Deployment"]) for pool in pools]
        now = tuple(deployment["spec"]["replicas"] if deployment else None for deployment in each)
        return now == wanted or str(now)

    until(f"Deployments of {wanted}", probe, seconds=seconds)


def test_a_budget_binds_deployments_and_is_edited_live(api: Api, namespace: str) -> None:
    pools = [PoolHandle(api, namespace, name) for name in ("heavy", "light")]
    with policy(api, namespace, **budget(2)):
        for pool, weight in zip(pools, (300, 100), strict=True):
            accelerator = {"resourceName": GPU, "count": 1}
            pool.apply({**BARE, "replicas": 3, "weight": weight, "accelerator": accelerator})
        await_replicas(pools, 1, 1)
        pools[0].await_condition("BudgetLimited", "True", "BudgetShort", seconds=20)

        def spent() -> bool | str:
            (budget_status,) = api.request("GET", PATH).get("status", {}).get("budgets", [{}])
            return (budget_status.get("wanted"), budget_status.get("granted")) == (6, 2) or str(
                budget_status
            )

        until("the policy's status reports it", spent, seconds=20)
        api.merge(PATH, {"spec": budget(4)})
        await_replicas(pools, 3, 1)
    await_replicas(pools, 3, 3)
    pools[0].await_condition("BudgetLimited", "False", "NoBudget", seconds=20)


def test_an_invalid_schedule_is_reported_on_the_policy(api: Api, namespace: str) -> None:
    wrong = {"name": "odd", "cron": "61 8 * * *", "durationMinutes": 60, "minReplicas": 2}
    PoolHandle(api, namespace, "chat").apply(BARE)
    with policy(api, namespace, schedules=[wrong]):

        def reported() -> bool | str:
            conditions = api.request("GET", PATH).get("status", {}).get("conditions", [])
            accepted = {condition["type"]: condition for condition in conditions}.get(
                "Accepted", {}
            )
            return accepted.get("reason") == "ScheduleInvalid" or str(accepted)

        until("Accepted=False/ScheduleInvalid", reported, seconds=20)


def test_good_settings_are_kept_in_the_operators_namespace_and_go_with_the_pool(
    api: Api, operator: OperatorProcess, pool: PoolHandle
) -> None:
    pool.apply(BARE)
    await_children(api, pool)
    uid = pool.get()["metadata"]["uid"]
    path = f"/api/v1/namespaces/{operator.namespace}/configmaps/{names.RECORD_PREFIX}{uid}"

    def kept() -> int | None:
        config_map = api.get(path)
        if config_map is None:
            return None
        record = json.loads(config_map["data"][names.RECORD_FILE])
        return int(record["accepted"]["fields"]["batching.maxQueueDepth"])

    with policy(api, pool.namespace, rollback={"mode": "OnObjectiveMiss"}):
        until("the settings are kept", lambda: kept() is not None, seconds=20)
        pool.edit({"batching": {"maxQueueDepth": 77}})
        until("the new ones are", lambda: kept() == 77, seconds=20)
        with operator.down():
            pool.delete()
        until("the record is gone", lambda: api.get(path) is None, seconds=60)
