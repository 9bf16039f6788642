"""Pool views: the inputs of decisions about one pool, from the object store, with ownership checked by UID."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock_api import names
from penstock_operator.decide.manifests.workload import WORKLOADS
from penstock_operator.deleted_pool import DeletedPool
from penstock_operator.kube import kinds
from penstock_operator.kube.kinds import ResourceKind, child_name
from penstock_operator.observe.cluster.cache import ObjectStore, Unreadable
from penstock_operator.observe.cluster.gateway import NO_ANSWERS, GatewayAnswers, gateway_view
from penstock_operator.observed import (
    NO_NODES,
    Acknowledgement,
    BatchLoad,
    ChildObject,
    NodeView,
    PodObject,
    PoolLabels,
    PoolObject,
    PoolSignals,
    PoolView,
    Rejection,
    VariantView,
)
from penstock_operator.reconcile_state import ChildKey
from penstock_operator.variants import VariantFigures


@dataclass(frozen=True, slots=True)
class ObservedExtras:
    """Observations of a pool that do not come from watched objects."""

    confirmed: Mapping[ChildKey, ChildObject]
    """Objects under child names that the store lacks, read by GET."""
    signals: PoolSignals
    acknowledgements: Mapping[str, Acknowledgement]
    rejections: tuple[Rejection, ...] = ()
    gateway: GatewayAnswers = NO_ANSWERS
    nodes: NodeView = NO_NODES
    batches: tuple[BatchLoad, ...] | None = None
    variants: tuple[VariantView, ...] = ()


def pool_view(store: ObjectStore, pool: PoolObject, extras: ObservedExtras) -> PoolView:
    """Return everything that decisions read of the pool."""
    pods = tuple(owned_pods(store, pool.uid))
    live = {pod.uid for pod in pods}
    return PoolView(
        pool=pool,
        namespace_labels=namespace_labels(store, pool.namespace),
        children={**_without_gateway(extras.confirmed), **named_children(store, pool)},
        revisions=tuple(_revisions(store, pool.uid)),
        pods=pods,
        signals=extras.signals,
        acknowledgements={uid: ack for uid, ack in extras.acknowledgements.items() if uid in live},
        rejections=extras.rejections,
        gateway=gateway_view(store, pool, extras.confirmed, extras.gateway),
        nodes=extras.nodes,
        batches=extras.batches,
        variants=extras.variants,
        settings_record=None if (record := record_of(store, pool.uid)) is None else _text(record),
    )


def variant_views(
    store: ObjectStore, pool: PoolObject, figures: Callable[[str], VariantFigures]
) -> tuple[VariantView, ...]:
    """Return the pools under the names of the pool's variants, and the others that it controls; `figures` by UID."""
    if not pool.spec.variants:
        return ()
    named = (
        store.pool_by_name(pool.namespace, names.variant_pool(pool.name, variant.name))
        for variant in pool.spec.variants
    )
    owned = (store.pools[uid] for uid in store.of_pool(pool.uid) if uid in store.pools)
    near = (each for each in owned if each.namespace == pool.namespace)
    pools = {each.uid: each for each in (*named, *near) if each and each.uid != pool.uid}
    return tuple(
        VariantView(each, figures(each.uid))
        for each in sorted(pools.values(), key=lambda each: each.name)
    )


def record_of(store: ObjectStore, pool_uid: str) -> ChildObject | None:
    """Return the ConfigMap with a pool's settings record, in the operator's own namespace."""
    name = names.RECORD_PREFIX + pool_uid
    return store.by_name(kinds.CONFIG_MAP, store.own_namespace, name)


def _text(record: ChildObject) -> str | None:
    data: Mapping[str, str] = record.manifest.get("data") or {}
    return data.get(names.RECORD_FILE)


def named_children(store: ObjectStore, pool: PoolObject) -> dict[ChildKey, ChildObject]:
    """Return the stored objects under the pool's child names, regardless of owner."""
    children = {}
    for kind, name in child_keys(pool):
        child = store.by_name(kind, pool.namespace, name)
        if child is not None:
            children[kind.kind, name] = child
    # a NetworkPolicy from before the setting was removed still has to be deleted
    policy = store.by_name(kinds.NETWORK_POLICY, pool.namespace, pool.name + names.CHILD_SUFFIX)
    if policy is not None:
        children[kinds.NETWORK_POLICY.kind, policy.name] = policy
    # its absence need not be confirmed: a pool without a checkpoint learns again
    checkpoint = store.by_name(kinds.CONFIG_MAP, pool.namespace, pool.name + names.MEMORY_SUFFIX)
    if checkpoint is not None:
        children[kinds.CONFIG_MAP.kind, checkpoint.name] = checkpoint
    return children


def child_keys(
    pool: PoolObject,
    named: tuple[ResourceKind, ...] = (*kinds.NAMED_CHILDREN, kinds.LEADER_WORKER_SET),
) -> tuple[tuple[ResourceKind, str], ...]:
    """Return the kinds and names of the children that a pool has of these kinds."""
    grouped = pool.spec.pods_per_replica > 1
    other = kinds.DEPLOYMENT if grouped else kinds.LEADER_WORKER_SET
    return tuple((kind, child_name(kind, pool.name)) for kind in named if kind is not other)


def _without_gateway(confirmed: Mapping[ChildKey, ChildObject]) -> dict[ChildKey, ChildObject]:
    return {key: item for key, item in confirmed.items() if key[1] != names.GATEWAY_NAME}


def owned_pods(store: ObjectStore, pool_uid: str) -> Iterator[PodObject]:
    """Yield the unfinished pods of the pool's workload, one of each replica, by UID, oldest first.

    Their ReplicaSet or StatefulSet is controlled by the workload, and that by the pool: a label alone proves nothing, since
    anyone with permission to create pods can set it. Of a group it is the leader, with the problems of its workers.
    """
    records = [store.pods[uid] for uid in store.of_pool(pool_uid) if uid in store.pods]
    by_owner = defaultdict(list)
    for record in sorted(records, key=lambda record: (record.pod.created, record.pod.uid)):
        pods = store.pod_sets.get(record.controller_uid or "")
        if pods is not None and not record.finished:
            by_owner[pods.controller_uid or ""].append(record.pod)
    for owner, owned in by_owner.items():
        workload = store.children.get(owner)
        if workload is not None and workload.controller_uid == pool_uid:
            yield from (with_workers(pod, by_owner.get(pod.uid, ())) for pod in owned)


def with_workers(leader: PodObject, workers: Sequence[PodObject]) -> PodObject:
    """Return the leader of a group with the first problem in the group; a pod without workers is unchanged."""
    failing = next((pod for pod in workers if pod.problem is not None), None)
    if leader.problem is not None or failing is None or failing.problem is None:
        return leader
    message = f"worker {failing.name}: {failing.problem.message}"
    return replace(
        leader,
        problem=replace(failing.problem, message=message),
        unschedulable_since=failing.unschedulable_since,
    )


def namespace_labels(store: ObjectStore, namespace: str) -> Mapping[str, str]:
    """Return a namespace's labels; empty until it has been read."""
    record = store.namespaces.get(namespace)
    return record.labels if record else {}


def is_terminating(store: ObjectStore, pool: PoolObject | Unreadable) -> bool:
    """Return whether the pool or its namespace is being deleted, so that nothing more is created."""
    record = store.namespaces.get(pool.namespace)
    return pool.deleting or (record is not None and record.deleting)


def all_pools(store: ObjectStore, namespaces: Collection[str]) -> tuple[PoolLabels, ...]:
    """Return the labels of every pool in these namespaces that is not being deleted, unreadable ones included."""
    return tuple(
        PoolLabels(pool.uid, pool.namespace, namespace_labels(store, pool.namespace), pool.labels)
        for pool in store.every_pool()
        if pool.namespace in namespaces and not is_terminating(store, pool)
    )


def deleted_pools(store: ObjectStore, namespaces: Collection[str]) -> tuple[DeletedPool, ...]:
    """Return the pools in these namespaces that are being deleted, or were while objects with their label remain."""
    deleting = (pool for pool in store.every_pool() if is_terminating(store, pool))
    pools = (*deleting, *store.deleted.values())
    return tuple(_deleted_pool(store, pool) for pool in pools if pool.namespace in namespaces)


def _deleted_pool(store: ObjectStore, pool: PoolObject | Unreadable) -> DeletedPool:
    """Return what a deleted pool leaves in its namespace.

    The label decides, since a deletion removes or orphans the links between pods and pool one after another.
    """
    uids = store.of_pool(pool.uid)
    pods = (store.pods[uid] for uid in uids if uid in store.pods)
    children = (store.children[uid] for uid in uids if uid in store.children)
    devices, replicas = Counter[str](), 0
    for record in pods:
        if record.namespace == pool.namespace and record.pod.scheduled and not record.finished:
            devices.update(record.devices)
    for child in children:
        owned = child.namespace == pool.namespace and child.controller_uid in (None, pool.uid)
        if child.kind in WORKLOADS and owned and not child.deleting:
            replicas += int(child.manifest["spec"].get("replicas", 1))
    labels = namespace_labels(store, pool.namespace)
    return DeletedPool(pool.uid, pool.labels, labels, devices, replicas)


def _revisions(store: ObjectStore, pool_uid: str) -> Iterator[ChildObject]:
    owned = [
        store.children[uid]
        for uid in store.of_pool(pool_uid)
        if uid in store.children
        and store.children[uid].kind == kinds.REVISION.kind
        and store.children[uid].controller_uid == pool_uid
    ]
    yield from sorted(owned, key=lambda child: (child.manifest.get("revision") or 0, child.name))
