"""The operator repairs and deletes all of its children, and changes no other object."""

import json
import time

import pytest

from tests.e2e.conftest import MakePool
from tests.support.kube.api import Api, Object
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle, emulated, until

SELECTOR = {"matchLabels": {"app": "foreign"}}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def left_over(api: Api, pool: PoolHandle) -> list[str]:
    """Return the names of the objects that a pool left in its namespace."""
    paths = (
        "/api/v1/namespaces/{}/pods", "/api/v1/namespaces/{}/services",
        "/api/v1/namespaces/{}/configmaps", "/api/v1/namespaces/{}/serviceaccounts",
        "/apis/apps/v1/namespaces/{}/deployments", "/apis/apps/v1/namespaces/{}/replicasets",
        "/apis/apps/v1/namespaces/{}/controllerrevisions",
        "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    )  # fmt: skip
    names = [
        child["metadata"]["name"]
        for path in paths
        for child in api.list(path.format(pool.namespace))
    ]
    return [name for name in names if name.startswith(pool.name)]


@pytest.mark.alone
def test_a_pool_deleted_while_the_operator_is_down_leaves_nothing(
    api: Api, operator: InstalledOperator, make_pool: MakePool
) -> None:
    pool = make_pool("orphan")
    pool.await_ready(1)
    operator.stop()
    try:
        pool.delete()
        until(
            "everything gone", lambda: not left_over(api, pool) or left_over(api, pool).__repr__()
        )
    finally:
        operator.start()
    time.sleep(5)
    assert left_over(api, pool) == []


def foreign_service(namespace: str) -> Object:
    spec = {"selector": {"app": "foreign"}, "ports": [{"port": 80}]}
    return {
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "taken", "namespace": namespace}, "spec": spec,
    }  # fmt: skip


def foreign_deployment(namespace: str) -> Object:
    container = {"name": "c", "image": "localhost/absent:1", "securityContext": RESTRICTED}
    template = {"metadata": {"labels": {"app": "foreign"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "taken-penstock", "namespace": namespace},
        "spec": {"replicas": 0, "selector": SELECTOR, "template": template},
    }  # fmt: skip


@pytest.mark.usefixtures("no_crash_loop")
def test_names_in_use_are_reported_and_their_objects_stay_byte_identical(
    api: Api, namespace: str
) -> None:
    pool = PoolHandle(api, namespace, "taken")
    api.create(foreign_service(namespace))
    api.create(foreign_deployment(namespace))
    paths = (pool.children["Service"], pool.children["Deployment"])
    until(
        "the Deployment observed",
        lambda: api.request("GET", paths[1])["status"].get("observedGeneration"),
    )
    before = [json.dumps(api.request("GET", path)) for path in paths]
    pool.apply(emulated())
    took = pool.await_condition("Ready", "False", "NameConflict", seconds=10)
    message = pool.condition("Ready")["message"]
    time.sleep(6)  # more than a tick: later passes do not change it either
    assert took < 10
    assert "Service taken" in message
    assert "Deployment taken-penstock" in message
    assert [json.dumps(api.request("GET", path)) for path in paths] == before
    for path in paths:
        api.delete(path)
    pool.await_ready(1)


def test_children_edited_or_deleted_by_hand_are_repaired(api: Api, steady: PoolHandle) -> None:
    deployment, service = steady.children["Deployment"], steady.children["Service"]
    selector = api.request("GET", service)["spec"]["selector"]
    api.merge(service, {"spec": {"selector": {"app": "elsewhere"}}})
    api.merge(
        deployment, {"spec": {"replicas": 0}, "metadata": {"labels": {"penstock.dev/pool": None}}}
    )

    def repaired() -> bool | str:
        now = api.request("GET", deployment)
        seen = {
            "selector": api.request("GET", service)["spec"]["selector"] == selector,
            "replicas": now["spec"]["replicas"] == 2,
            "label": now["metadata"]["labels"].get("penstock.dev/pool") == steady.name,
        }
        return all(seen.values()) or str(seen)

    until("edits undone", repaired, seconds=20)
    for kind in ("Service", "ConfigMap", "PodDisruptionBudget", "ServiceAccount"):
        api.delete(steady.children[kind])
    until(
        "children back", lambda: all(api.get(path) for path in steady.children.values()), seconds=20
    )
    steady.await_ready(2)
