"""Pools that are deleted or being deleted: which pods and workloads still count as theirs."""

from typing import Any

import pytest

from penstock_operator.deleted_pool import DeletedPool
from penstock_operator.kube import kinds
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.views import deleted_pools
from tests.unit.operator.observe.cluster import raw_objects

GPU = "nvidia.com/gpu"
NAMESPACES = frozenset({"team-a"})


def gpu_pod(uid: str, count: object = "1", node: str = "node-1", **status: Any) -> raw_objects.Json:
    limits = {GPU: count, "memory": "8Gi", "cpu": "2"}
    spec = {
        "nodeName": node,
        "containers": [{"name": "runtime", "resources": {"limits": limits}}, {"name": "proxy"}],
    }
    return {**raw_objects.pod(uid, "r", "pool-1", **status), "spec": spec}


def pool(version: int = 1, **metadata: Any) -> raw_objects.Json:
    raw = raw_objects.pool(version=version)
    return {**raw, "metadata": {**raw["metadata"], "labels": {"app": "chat"}, **metadata}}


def running_pool() -> ObjectStore:
    """Return a store with a pool, its Deployment and two pods with a device each."""
    store = ObjectStore()
    store.upsert(kinds.NAMESPACE, raw_objects.namespace(labels={"tier": "prod"}))
    store.upsert(kinds.POOL, pool())
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1"))
    store.upsert(kinds.REPLICA_SET, raw_objects.replica_set("r", "d", "pool-1"))
    for uid in ("p", "q"):
        store.upsert(kinds.POD, gpu_pod(uid))
    return store


def left(store: ObjectStore) -> DeletedPool:
    (deleted,) = deleted_pools(store, NAMESPACES)
    return deleted


def test_a_pool_that_lives_is_not_among_them() -> None:
    assert deleted_pools(running_pool(), NAMESPACES) == ()


def test_a_pool_with_a_finalizer_leaves_its_pods_and_its_workload() -> None:
    store = running_pool()
    store.upsert(kinds.POOL, pool(2, deletionTimestamp=raw_objects.CREATED))
    assert left(store) == DeletedPool("pool-1", {"app": "chat"}, {"tier": "prod"}, {GPU: 2}, 1)
    assert deleted_pools(store, frozenset()) == (), "another installation's"


def test_an_orphaned_workload_and_its_pods_count_until_they_are_gone() -> None:
    store = running_pool()
    orphan = raw_objects.deployment("d", "pool-1", 2)
    orphan["metadata"].pop("ownerReferences")
    store.upsert(kinds.DEPLOYMENT, orphan)
    store.remove(kinds.POOL, "pool-1", 2)
    assert left(store) == DeletedPool("pool-1", {"app": "chat"}, {"tier": "prod"}, {GPU: 2}, 1)
    store.remove(kinds.DEPLOYMENT, "d", 3)
    store.remove(kinds.REPLICA_SET, "r", 3)
    store.remove(kinds.POD, "p", 3)
    assert (left(store).devices, left(store).replicas) == ({GPU: 1}, 0)
    store.remove(kinds.POD, "q", 3)
    assert deleted_pools(store, NAMESPACES) == ()
    assert store.deleted == {}


def test_a_workload_that_is_being_deleted_starts_no_pod() -> None:
    store = running_pool()
    ending = raw_objects.deployment("d", "pool-1", 2)
    ending["metadata"]["deletionTimestamp"] = raw_objects.CREATED
    store.upsert(kinds.DEPLOYMENT, ending)
    store.remove(kinds.POOL, "pool-1", 2)
    assert left(store).replicas == 0


@pytest.mark.parametrize(
    ("other", "devices"),
    [
        (gpu_pod("x", "2k"), 2002),
        (gpu_pod("x", node=""), 2),
        (gpu_pod("x", phase="Succeeded"), 2),
    ],
)
def test_pods_count_from_binding_to_their_end(other: raw_objects.Json, devices: int) -> None:
    store = running_pool()
    store.remove(kinds.POOL, "pool-1", 2)
    store.upsert(kinds.POD, other)
    assert left(store).devices == {GPU: devices}


def test_objects_of_other_namespaces_and_owners_do_not_count() -> None:
    store = running_pool()
    store.remove(kinds.POOL, "pool-1", 2)
    other = gpu_pod("x")
    other["metadata"]["namespace"] = "team-b"
    store.upsert(kinds.POD, other)
    owned = raw_objects.deployment("d2", "pool-1")
    owned["metadata"] |= {"name": "other", "ownerReferences": raw_objects.owned("App", "app-1")}
    store.upsert(kinds.DEPLOYMENT, owned)
    assert (left(store).devices, left(store).replicas) == ({GPU: 2}, 1)


def test_a_pool_that_is_read_again_is_not_deleted() -> None:
    store = running_pool()
    store.remove(kinds.POOL, "pool-1")
    store.upsert(kinds.POOL, pool(2))
    assert deleted_pools(store, NAMESPACES) == ()
