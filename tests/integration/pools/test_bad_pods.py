"""The pool reports why pods do not serve, with Kubernetes' own message, until the cause is gone."""

import pytest

from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api, Object
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, emulated, is_ready, until

pytestmark = pytest.mark.integration

CLAIM = "weights"
SMALL = {"template": {"container": {"resources": {"requests": {"cpu": "5m"}}}}}
"""Small requests, because the test machine is small and these pods never serve."""


def test_a_missing_claim_is_reported_until_it_is_created(
    api: Api, pool: PoolHandle, operator: OperatorProcess
) -> None:
    spec = {**emulated(replicas=1), **SMALL}
    claim = {"claimName": CLAIM, "path": "model.pt2"}
    spec["model"] = {"source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}}
    pool.apply(spec)

    assert until("the missing claim is reported", lambda: reported(pool, CLAIM), seconds=20) < 15

    for manifest in volume(pool.namespace):
        api.create(manifest)
    try:
        until("the claim is no longer reported", lambda: not_reported(pool, CLAIM), seconds=60)
    finally:
        api.delete(f"/api/v1/persistentvolumes/{volume(pool.namespace)[0]['metadata']['name']}")
    assert operator.running


def test_an_image_that_cannot_be_pulled_is_reported_until_it_is_replaced(
    api: Api, pool: PoolHandle
) -> None:
    pool.apply({**emulated(replicas=1), **SMALL, "runtime": {"image": "localhost/no-such-image:1"}})

    assert until("the image is reported", lambda: reported(pool, "no-such-image"), seconds=30) < 20
    assert pool.condition("Ready")["reason"] == "ImagePullFailed"

    pool.edit({"replicas": 0, "runtime": {"image": "localhost/penstock-busybox:1"}})
    pool.await_zero(seconds=40)


def test_pods_that_do_not_fit_into_the_cluster_are_reported(api: Api, pool: PoolHandle) -> None:
    absent = {"resourceName": "example.com/absent", "count": 1}
    pool.apply({**emulated(replicas=1, accelerator=absent), **SMALL})

    assert (
        until("the shortage is reported", lambda: reported(pool, "example.com/absent"), seconds=20)
        < 15
    )
    assert not any(map(is_ready, pool.pods()))


def test_pods_that_admission_rejects_are_reported(api: Api, pool: PoolHandle) -> None:
    pool.apply(BARE)
    await_children(api, pool)
    quota: Object = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-pods"},
        "spec": {"hard": {"pods": "0"}},
    }
    path = f"/api/v1/namespaces/{pool.namespace}/resourcequotas"
    api.request("POST", path, quota)
    counted = f"{path}/no-pods"
    until("the quota counts", lambda: api.request("GET", counted).get("status", {}).get("used"))

    pool.edit({"replicas": 1})

    assert until("the quota is reported", lambda: reported(pool, "quota"), seconds=20) < 12


def reported(pool: PoolHandle, word: str) -> bool | str:
    ready = pool.condition("Ready")
    return (ready.get("status") == "False" and word in ready.get("message", "")) or str(ready)


def not_reported(pool: PoolHandle, word: str) -> bool | str:
    ready = pool.condition("Ready")
    return (bool(ready) and word not in ready.get("message", "")) or str(ready)


def volume(namespace: str) -> tuple[Object, Object]:
    """Return a volume on the test node's disk, and a claim for it."""
    name = f"{namespace}-{CLAIM}"
    size = {"storage": "1Mi"}
    persistent: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "hostPath": {"path": "/tmp", "type": "Directory"},  # noqa: S108 - mounted read-only, never written
            "claimRef": {"namespace": namespace, "name": CLAIM},
        },
    }
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": size},
        },
    }
    return persistent, claim
