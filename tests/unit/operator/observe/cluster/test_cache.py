"""The store: old news is no news, ghosts do not come back, and labels prove nothing."""

from penstock_operator.kube import kinds
from penstock_operator.observe.cluster.cache import ALL_POOLS, ObjectStore
from penstock_operator.observe.cluster.views import all_pools, is_terminating, owned_pods
from tests.unit.operator.observe.cluster import raw_objects

NOBODY: frozenset[str] = frozenset()
POOL = frozenset({"pool-1"})


def test_a_pool_matters_to_itself_when_it_is_first_seen() -> None:
    assert ObjectStore().upsert(kinds.POOL, raw_objects.pool()) == POOL


def test_a_change_of_status_alone_wakes_nobody_but_is_kept() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool())

    newer = {**raw_objects.pool(version=2), "status": {"replicas": 3}}

    assert store.upsert(kinds.POOL, newer) == NOBODY
    assert store.pools["pool-1"].status.replicas == 3
    assert store.pools["pool-1"].resource_version == "2"


def test_an_edit_of_annotations_wakes_the_pool() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool())
    edited = raw_objects.pool(version=2)
    edited["metadata"]["annotations"] = {"penstock.dev/restartedAt": "now"}

    assert store.upsert(kinds.POOL, edited) == POOL


def test_older_news_than_what_is_known_is_dropped() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=9, replicas=2))

    assert (
        store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=8)) == NOBODY
    )
    assert store.children["d"].status == {"replicas": 2}


def test_a_late_answer_does_not_bring_a_deleted_object_back() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=5))
    assert store.remove(kinds.DEPLOYMENT, "d", 7) == POOL

    assert (
        store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=6)) == NOBODY
    )
    assert store.children == {}


def test_an_object_that_lost_its_label_comes_back_with_it() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=5))
    store.remove(kinds.DEPLOYMENT, "d", 7)

    assert store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", version=8)) == POOL
    assert store.by_name(kinds.DEPLOYMENT, "team-a", "chat-penstock") is not None


def test_a_replaced_object_is_found_by_its_name_whatever_the_order_of_events() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("old", "pool-1", version=5))
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("new", "pool-1", version=6))
    store.remove(kinds.DEPLOYMENT, "old", 5)

    found = store.by_name(kinds.DEPLOYMENT, "team-a", "chat-penstock")
    assert found is not None
    assert found.uid == "new"


def test_counts_of_a_deployment_wake_its_pool_and_its_transition_times_do_not() -> None:
    store = ObjectStore()
    at = {"type": "Available", "status": "True", "lastTransitionTime": "a"}
    store.upsert(
        kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1", 1, replicas=1, conditions=[at])
    )

    later = {**at, "lastTransitionTime": "b"}
    same = raw_objects.deployment("d", "pool-1", 2, replicas=1, conditions=[later])
    more = raw_objects.deployment("d", "pool-1", 3, replicas=2, conditions=[later])

    assert store.upsert(kinds.DEPLOYMENT, same) == NOBODY
    assert store.upsert(kinds.DEPLOYMENT, more) == POOL


def test_a_namespace_wakes_the_pools_in_it_and_a_policy_wakes_all() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool())

    assert store.upsert(kinds.NAMESPACE, raw_objects.namespace("team-a")) == POOL
    assert store.upsert(kinds.NAMESPACE, raw_objects.namespace("team-b")) == NOBODY
    policy = {"metadata": {"name": "prod", "uid": "p", "resourceVersion": "1"}, "spec": {}}
    assert store.upsert(kinds.POLICY, policy) is ALL_POOLS


def test_a_spec_of_a_newer_schema_is_unreadable_and_no_pool() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool(scaling={"mode": "Telepathy"}))

    assert store.pools == {}
    assert store.unreadable["pool-1"].message.startswith("spec.scaling.mode: ")

    store.upsert(kinds.POOL, raw_objects.pool(version=2, scaling={"mode": "Auto"}))
    assert store.unreadable == {}
    assert "pool-1" in store.pools


def test_a_pod_belongs_to_a_pool_through_its_owners_and_not_through_its_label() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-1"))
    store.upsert(kinds.REPLICA_SET, raw_objects.replica_set("r", "d", "pool-1"))
    store.upsert(kinds.REPLICA_SET, raw_objects.replica_set("forged", "elsewhere", "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("mine", "r", "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("labelled", None, "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("forged", "forged", "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("done", "r", "pool-1", phase="Failed"))

    assert [one.uid for one in owned_pods(store, "pool-1")] == ["mine"]


def test_a_deployment_that_another_pool_controls_lends_no_pods() -> None:
    store = ObjectStore()
    store.upsert(kinds.DEPLOYMENT, raw_objects.deployment("d", "pool-2"))
    store.upsert(kinds.REPLICA_SET, raw_objects.replica_set("r", "d", "pool-1"))
    store.upsert(kinds.POD, raw_objects.pod("p", "r", "pool-1"))

    assert list(owned_pods(store, "pool-1")) == []


def test_nothing_is_to_be_made_in_a_namespace_that_is_going() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw_objects.pool())
    store.upsert(kinds.NAMESPACE, raw_objects.namespace(labels={"tier": "prod"}))
    mine = {store.pools["pool-1"].namespace}
    assert [one.namespace_labels for one in all_pools(store, mine)] == [{"tier": "prod"}]
    assert all_pools(store, set()) == ()  # another installation's

    going = raw_objects.namespace(version=2, deletionTimestamp=raw_objects.CREATED)
    assert store.upsert(kinds.NAMESPACE, going) == POOL

    assert is_terminating(store, store.pools["pool-1"])
    assert all_pools(store, mine) == ()


def test_fields_that_a_plain_create_owns_are_noted_until_they_are_handed_over() -> None:
    store = ObjectStore()
    made = raw_objects.deployment("d", "pool-1")
    made["metadata"]["managedFields"] = [{"manager": "penstock", "operation": "Update"}]
    store.upsert(kinds.DEPLOYMENT, made)
    assert store.created_plainly == {"d"}

    applied = raw_objects.deployment("d", "pool-1", version=2)
    applied["metadata"]["managedFields"] = [{"manager": "penstock", "operation": "Apply"}]
    store.upsert(kinds.DEPLOYMENT, applied)
    assert store.created_plainly == set()
