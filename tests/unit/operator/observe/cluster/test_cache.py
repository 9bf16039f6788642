"""The object store: stale events are ignored, removed objects stay removed, and ownership needs UIDs."""

from typing import Any

import pytest

from penstock_operator.kube import kinds
from penstock_operator.observe.cluster.cache import ALL_POOLS, ObjectStore
from penstock_operator.observe.cluster.views import (
    all_pools,
    is_terminating,
    namespace_labels,
    owned_pods,
    variant_views,
)
from penstock_operator.variants import VariantFigures
from tests.unit.operator.observe.cluster import raw_objects

NO_POOLS: frozenset[str] = frozenset()
POOL = frozenset({"pool-1"})


def test_a_new_pool_affects_itself() -> None:
    assert ObjectStore().upsert(kinds.POOL, raw_objects.pool()) == POOL


def test_a_change_of_status_alone_affects_no_pool_and_is_stored() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool())

    newer = {**raw_objects.pool(version=2), "status": {"replicas": 3}}

    assert store.upsert(kinds.POOL, newer) == NO_POOLS
    assert store.pools["pool-1"].status.replicas == 3
    assert store.pools["pool-1"].resource_version == "2"


def test_an_edit_of_annotations_affects_the_pool() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool())
    edited = raw_objects.pool(version=2)
    edited["metadata"]["annotations"] = {"penstock.dev/restartedAt": "now"}

    assert store.upsert(kinds.POOL, edited) == POOL


def test_an_older_version_is_ignored() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=9, replicas=2))

    assert (
        store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=8)) == NO_POOLS
    )
    assert store.children["d"].status == {"replicas": 2}


def test_a_late_response_does_not_restore_a_deleted_object() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=5))
    assert store.remove(kinds.DEPLOYMENT, "d", 7) == POOL

    assert (
        store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=6)) == NO_POOLS
    )
    assert store.children == {}


def test_an_object_that_lost_its_label_returns_with_it() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=5))
    store.remove(kinds.DEPLOYMENT, "d", 7)

    assert store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=8)) == POOL
    assert store.by_name(kinds.DEPLOYMENT, "team-a", "chat-penstock") is not None


def test_a_replaced_object_is_found_by_name_whatever_the_order_of_events() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("old", "pool-1", version=5))
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("new", "pool-1", version=6))
    store.remove(kinds.DEPLOYMENT, "old", 5)

    child = store.by_name(kinds.DEPLOYMENT, "team-a", "chat-penstock")
    assert child is not None
    assert child.uid == "new"


def test_counts_of_a_deployment_affect_its_pool_and_transition_times_do_not() -> None:
    store = ObjectStore()
    at = {"type": "Available", "status": "True", "lastTransitionTime": "a"}
    store.upsert(
        kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", 1, replicas=1, conditions=[at])
    )

    later = {**at, "lastTransitionTime": "b"}
    same = raw_objects.deployment("d", "pool-1", 2, replicas=1, conditions=[later])
    more = raw_objects.deployment("d", "pool-1", 3, replicas=2, conditions=[later])

    assert store.upsert(kinds.DEPLOYMENT, same) == NO_POOLS
    assert store.upsert(kinds.DEPLOYMENT, more) == POOL


def test_a_namespace_affects_the_pools_in_it_and_a_policy_affects_all() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool())

    assert store.upsert(kinds.NAMESPACE, raw_objects.namespace("team-a")) == POOL
    assert store.upsert(kinds.NAMESPACE, raw_objects.namespace("team-b")) == NO_POOLS
    policy = {"metadata": {"name": "prod", "uid": "p", "resourceVersion": "1"}, "spec": {}}
    assert store.upsert(kinds.POLICY, policy) is ALL_POOLS


def test_a_recreated_namespace_keeps_its_labels_when_the_old_one_is_removed() -> None:
    store = ObjectStore()
    store.upsert(kinds.NAMESPACE, raw_objects.namespace())
    store.upsert(
        kinds.NAMESPACE, raw_objects.namespace(version=2, uid="new", labels={"tier": "prod"})
    )
    store.remove(kinds.NAMESPACE, "ns-team-a", 1)
    assert namespace_labels(store, "team-a") == {"tier": "prod"}
    store.remove(kinds.NAMESPACE, "new", 2)
    assert namespace_labels(store, "team-a") == {}


def test_a_spec_of_a_newer_schema_is_unreadable() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool(scaling={"mode": "Telepathy"}))

    assert store.pools == {}
    assert store.unreadable["pool-1"].message.startswith("spec.scaling.mode: ")

    store.upsert(kinds.POOL, raw_objects.pool(version=2, scaling={"mode": "Auto"}))
    assert store.unreadable == {}
    assert "pool-1" in store.pools


def policy(version: int, **spec: Any) -> raw_objects.Json:
    return {"metadata": {"name": "prod", "uid": "p", "resourceVersion": str(version)}, "spec": spec}


BOUNDS = {"replicas": {"max": 2}}


def test_a_policy_that_becomes_unreadable_keeps_its_last_spec_in_force() -> None:
    store = ObjectStore()
    store.upsert(kinds.POLICY, policy(1, bounds=BOUNDS))
    for version in (2, 3):
        store.upsert(kinds.POLICY, policy(version, bounds={"replicas": {"max": "many"}}))
        bounds = store.policies["p"].spec.bounds
        assert bounds is not None
        assert bounds.replicas is not None
        assert bounds.replicas.max == 2
    unread = store.unreadable_policies["p"]
    assert (unread.name, unread.applies) == ("prod", True)
    assert unread.problem.startswith("spec.bounds.replicas.max: ")
    assert unread.problem.endswith("its last readable spec stays in force")
    store.upsert(kinds.POLICY, policy(4))
    assert store.policies["p"].spec.bounds is None
    assert store.unreadable_policies == {}


def test_a_policy_that_was_never_readable_applies_without_what_cannot_be_parsed() -> None:
    store, budgets = ObjectStore(), [{"resourceName": "nvidia.com/gpu", "count": 4}]
    bounds = {**BOUNDS, "weight": {"max": "heavy"}}
    for version, limit in ((1, 2), (2, 3)):
        bounds = {**bounds, "replicas": {"max": limit}}
        newer = policy(version, bounds=bounds, gpuBudgets=budgets, rollback={"mode": "Sometimes"})
        store.upsert(kinds.POLICY, newer)
        spec = store.policies["p"].spec
        assert spec.bounds is not None
        assert spec.bounds.replicas is not None
        assert (spec.bounds.replicas.max, spec.bounds.weight, spec.rollback) == (limit, None, None)
        assert spec.gpu_budgets is not None
    problem = store.unreadable_policies["p"].problem
    assert problem.endswith("it applies without spec.bounds.weight, spec.rollback")


@pytest.mark.parametrize("spec", [{"namespaceSelector": "all"}, "nothing"])
def test_a_policy_whose_selectors_were_never_readable_does_not_apply(spec: Any) -> None:
    store = ObjectStore()
    store.upsert(kinds.POLICY, {**policy(1), "spec": spec})
    assert store.policies == {}
    assert not store.unreadable_policies["p"].applies
    store.remove(kinds.POLICY, "p")
    assert store.unreadable_policies == {}


def test_an_unreadable_pool_counts_as_a_pool_until_it_is_deleted() -> None:
    store, raw = ObjectStore(), raw_objects.pool(scaling={"mode": "Telepathy"})
    raw["metadata"]["labels"] = {"app": "chat"}
    store.upsert(kinds.POOL, raw)
    assert [(each.uid, each.labels) for each in all_pools(store, {"team-a"})] == [
        ("pool-1", {"app": "chat"})
    ]
    deleted = raw_objects.meta("chat", "pool-1", 2, deletionTimestamp=raw_objects.CREATED)
    store.upsert(kinds.POOL, {**raw, "metadata": deleted})
    assert all_pools(store, {"team-a"}) == ()


@pytest.mark.parametrize(
    "spec", ["all", {"model": "any"}, {"model": {"source": {"type": "Dream"}}}]
)
def test_a_spec_without_a_readable_model_has_no_readable_part(spec: Any) -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, {**raw_objects.pool(), "spec": spec})
    assert store.unreadable["pool-1"].part is None


def test_a_pod_belongs_to_a_pool_by_its_owners_and_not_by_its_label() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1"))
    store.upsert(kinds.REPLICA_SET, raw_objects.replica_set("r", "d", "pool-1"))
    store.upsert(kinds.REPLICA_SET, raw_objects.replica_set("forged", "elsewhere", "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("mine", "r", "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("labelled", None, "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("forged", "forged", "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("done", "r", "pool-1", phase="Failed"))

    assert [pod.uid for pod in owned_pods(store, "pool-1")] == ["mine"]


def group_of(store: ObjectStore, owner: str = "lws") -> None:
    """Store a group of two pods, whose leader is controlled by a StatefulSet of `owner`."""
    store.upsert(kinds.LEADER_WORKER_SET, raw_objects.leader_worker_set("lws", "pool-1"))
    store.upsert(kinds.STATEFUL_SET, raw_objects.stateful_set("leaders", "LeaderWorkerSet", owner))
    store.upsert(kinds.STATEFUL_SET, raw_objects.stateful_set("workers", "Pod", "leader"))
    store.upsert(kinds.POD, raw_objects.pod("leader", "leaders", "pool-1"))
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition = {
        **unscheduled,
        "message": "no room",
        "lastTransitionTime": raw_objects.CREATED,
    }
    store.upsert(kinds.POD, raw_objects.pod("worker", "workers", "pool-1", conditions=[condition]))


def test_a_group_is_one_pod_its_leader_with_the_problem_of_its_worker() -> None:
    store = ObjectStore()
    group_of(store)
    (leader,) = owned_pods(store, "pool-1")
    assert leader.uid == "leader"
    assert leader.problem is not None
    assert leader.problem.message == "worker chat-worker: no room"
    assert leader.unschedulable_since is not None


def test_a_group_of_another_owner_is_left_out() -> None:
    store = ObjectStore()
    group_of(store, owner="elsewhere")
    assert list(owned_pods(store, "pool-1")) == []


def test_pods_of_a_deployment_that_another_pool_controls_are_left_out() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-2"))
    store.upsert(kinds.REPLICA_SET, raw_objects.replica_set("r", "d", "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("p", "r", "pool-1"))

    assert list(owned_pods(store, "pool-1")) == []


def test_pools_in_a_terminating_namespace_are_left_out() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool())
    store.upsert(kinds.NAMESPACE, raw_objects.namespace(labels={"tier": "prod"}))
    namespaces = {store.pools["pool-1"].namespace}
    assert [each.namespace_labels for each in all_pools(store, namespaces)] == [{"tier": "prod"}]
    assert all_pools(store, set()) == ()  # another installation's

    terminating = raw_objects.namespace(version=2, deletionTimestamp=raw_objects.CREATED)
    assert store.upsert(kinds.NAMESPACE, terminating) == POOL

    assert is_terminating(store, store.pools["pool-1"])
    assert all_pools(store, namespaces) == ()


def test_a_child_created_without_apply_is_recorded_until_it_is_applied() -> None:
    store = ObjectStore()
    created = raw_objects.deployment("d", "pool-1")
    created["metadata"]["managedFields"] = [{"manager": "penstock", "operation": "Update"}]
    store.upsert(kinds.DEPLOYMENT, created)
    assert store.created_without_apply == {"d"}

    applied = raw_objects.deployment("d", "pool-1", version=2)
    applied["metadata"]["managedFields"] = [{"manager": "penstock", "operation": "Apply"}]
    store.upsert(kinds.DEPLOYMENT, applied)
    assert store.created_without_apply == set()


def test_the_deletion_of_an_earlier_pools_child_affects_the_pool_that_needs_its_name() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "earlier"))
    service = {"metadata": raw_objects.meta("chat", "s", labels=raw_objects.labels("earlier"))}
    store.upsert(kinds.SERVICE, service)
    store.upsert(kinds.POOL, raw_objects.pool())
    both = frozenset({"earlier", "pool-1"})
    assert store.remove(kinds.DEPLOYMENT, "d") == both
    assert store.remove(kinds.SERVICE, "s") == both


def test_an_owner_in_another_namespace_has_no_pool_of_a_variant() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool(variants=[{"name": "fast"}]))
    (owner,) = raw_objects.owned("InferencePool", "pool-1")
    own, forged = (raw_objects.pool(uid, name="chat-fast") for uid in ("own", "forged"))
    own["metadata"]["ownerReferences"] = forged["metadata"]["ownerReferences"] = [
        {**owner, "apiVersion": "penstock.dev/v1alpha1"}
    ]
    forged["metadata"]["namespace"] = "team-b"
    store.upsert(kinds.POOL, own)
    store.upsert(kinds.POOL, forged)

    views = variant_views(store, store.pools["pool-1"], lambda _: VariantFigures())

    assert [view.pool.uid for view in views] == ["own"]
