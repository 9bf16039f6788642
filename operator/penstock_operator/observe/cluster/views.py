"""The store -> what decisions read about one pool, with ownership followed by UIDs."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from penstock_api import names
from penstock_operator.kube import kinds
from penstock_operator.kube.kinds import ResourceKind, child_name
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observed import (
    Acknowledgement,
    ChildObject,
    PodObject,
    PoolLabels,
    PoolObject,
    PoolSignals,
    PoolView,
    Rejection,
)
from penstock_operator.reconcile_state import ChildKey


@dataclass(frozen=True, slots=True)
class ObservedExtras:
    """What was learnt about a pool elsewhere than from watched objects."""

    confirmed: Mapping[ChildKey, ChildObject]
    """What a GET found under child names that the store lacks."""
    signals: PoolSignals
    acknowledgements: Mapping[str, Acknowledgement]
    rejections: tuple[Rejection, ...] = ()
    past: PoolSignals | None = None


def pool_view(store: ObjectStore, pool: PoolObject, heard: ObservedExtras) -> PoolView:
    """Return everything decisions read about the pool."""
    pods = tuple(owned_pods(store, pool.uid))
    live = {pod.uid for pod in pods}
    return PoolView(
        pool=pool,
        namespace_labels=namespace_labels(store, pool.namespace),
        children={**heard.confirmed, **named_children(store, pool)},
        revisions=tuple(_revisions(store, pool.uid)),
        pods=pods,
        signals=heard.signals,
        acknowledgements={uid: one for uid, one in heard.acknowledgements.items() if uid in live},
        rejections=heard.rejections,
        past=heard.past,
        settings_record=None if (record := record_of(store, pool.uid)) is None else _kept(record),
    )


def record_of(store: ObjectStore, pool_uid: str) -> ChildObject | None:
    """Return the ConfigMap in the operator's own namespace in which a pool's settings are kept."""
    name = names.RECORD_PREFIX + pool_uid
    return store.by_name(kinds.CONFIG_MAP, store.own_namespace, name)


def _kept(record: ChildObject) -> str | None:
    data: Mapping[str, str] = record.manifest.get("data") or {}
    return data.get(names.RECORD_FILE)


def named_children(store: ObjectStore, pool: PoolObject) -> dict[ChildKey, ChildObject]:
    """Return the children that the store holds under the pool's child names, whoever owns them."""
    found = {}
    for kind, name in child_keys(pool):
        child = store.by_name(kind, pool.namespace, name)
        if child is not None:
            found[kind.kind, name] = child
    # left over from a time when pools had one, it is still to be taken away
    policy = store.by_name(kinds.NETWORK_POLICY, pool.namespace, pool.name + names.CHILD_SUFFIX)
    if policy is not None:
        found[kinds.NETWORK_POLICY.kind, policy.name] = policy
    # its absence need not be confirmed: a pool without a memory learns anew
    memory = store.by_name(kinds.CONFIG_MAP, pool.namespace, pool.name + names.MEMORY_SUFFIX)
    if memory is not None:
        found[kinds.CONFIG_MAP.kind, memory.name] = memory
    return found


def child_keys(
    pool: PoolObject, named: tuple[ResourceKind, ...] = kinds.NAMED_CHILDREN
) -> tuple[tuple[ResourceKind, str], ...]:
    """Return the kinds and names of the children that a pool has of these kinds."""
    return tuple((kind, child_name(kind, pool.name)) for kind in named)


def owned_pods(store: ObjectStore, pool_uid: str) -> Iterator[PodObject]:
    """Yield the pods whose ReplicaSet's Deployment is controlled by the pool, all by UID, oldest first; finished ones left out.

    A label alone proves nothing: whoever may create pods can write one.
    """
    records = [store.pods[uid] for uid in store.of_pool(pool_uid) if uid in store.pods]
    records = [one for one in records if not one.finished]
    for record in sorted(records, key=lambda one: (one.pod.created, one.pod.uid)):
        replica_set = store.replica_sets.get(record.controller_uid or "")
        deployment = store.children.get(replica_set.controller_uid or "") if replica_set else None
        if deployment is not None and deployment.controller_uid == pool_uid:
            yield record.pod


def namespace_labels(store: ObjectStore, namespace: str) -> Mapping[str, str]:
    """Return a namespace's labels; none while it has not been seen."""
    record = store.namespaces.get(namespace)
    return record.labels if record else {}


def is_terminating(store: ObjectStore, pool: PoolObject) -> bool:
    """Return whether the pool or its namespace is being deleted: nothing is to be made there any more."""
    record = store.namespaces.get(pool.namespace)
    return pool.deleting or (record is not None and record.deleting)


def all_pools(store: ObjectStore, namespaces: Collection[str]) -> tuple[PoolLabels, ...]:
    """Return what selectors read of every pool in some namespaces that is not being deleted."""
    return tuple(
        PoolLabels(pool.uid, pool.namespace, namespace_labels(store, pool.namespace), pool.labels)
        for pool in store.pools.values()
        if pool.namespace in namespaces and not is_terminating(store, pool)
    )


def _revisions(store: ObjectStore, pool_uid: str) -> Iterator[ChildObject]:
    mine = [
        store.children[uid]
        for uid in store.of_pool(pool_uid)
        if uid in store.children
        and store.children[uid].kind == kinds.REVISION.kind
        and store.children[uid].controller_uid == pool_uid
    ]
    yield from sorted(mine, key=lambda one: (one.manifest.get("revision") or 0, one.name))
