"""Object store: slim records of the watched objects by UID, with the links that decisions follow.

Used from the event loop only. `upsert` takes every event and every response to the operator's own writes; `remove` drops
deleted objects, and stale ones that were deleted while a watch was down (docs/design/design.md#observing).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from penstock_api import names
from penstock_operator.kube import kinds
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observe.cluster import convert
from penstock_operator.observe.cluster.convert import NamespaceRecord, PodRecord, PodSetRecord
from penstock_operator.observed import ChildObject, PolicyObject, PoolObject, UnreadablePolicy
from penstock_operator.variants import variant_owner

Json = Mapping[str, Any]
Name = tuple[str, str, str]
"""(kind, namespace, name)."""

MAX_TOMBSTONES = 10_000
"""Maximum number of removed UIDs whose resourceVersion is kept."""
ALL_POOLS = None
"""Returned by `upsert` and `remove` when every pool may be affected."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A pool whose spec this operator cannot parse, because its schema is newer."""

    uid: str
    namespace: str
    name: str
    generation: int
    message: str
    labels: Mapping[str, str]
    deleting: bool
    status: Json
    """As last read, which the report of the problem keeps."""
    part: PoolObject | None
    """The pool without the fields that cannot be parsed; None if the others are not a spec."""


@dataclass(slots=True)
class _Entry:
    """Version and digest of an object, by which stale and unchanged events are recognized."""

    version: int
    digest: str
    name: Name
    pools: frozenset[str]


@dataclass(slots=True)
class ObjectStore:
    """All watched objects, by UID."""

    own_namespace: str = ""
    """The operator's own namespace, with the settings records."""
    pools: dict[str, PoolObject] = field(default_factory=dict)
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    policies: dict[str, PolicyObject] = field(default_factory=dict)
    unreadable_policies: dict[str, UnreadablePolicy] = field(default_factory=dict)
    namespaces: dict[str, NamespaceRecord] = field(default_factory=dict)
    children: dict[str, ChildObject] = field(default_factory=dict)
    pod_sets: dict[str, PodSetRecord] = field(default_factory=dict)
    """ReplicaSets, and StatefulSets of groups."""
    pods: dict[str, PodRecord] = field(default_factory=dict)
    created_without_apply: set[str] = field(default_factory=set)
    """Children with fields that a plain create owns, not an apply; `act/children.py` moves the ownership."""
    deleted: dict[str, PoolObject | Unreadable] = field(default_factory=dict)
    """Pools that were deleted while objects with their label remain, by UID."""
    partial: set[str] = field(default_factory=set)
    """Namespaces that could not be read, and whose objects have not all been read again."""
    _entries: dict[str, dict[str, _Entry]] = field(default_factory=dict)
    _partial_policies: set[str] = field(default_factory=set)
    """Policies that were never readable as a whole, of which a part applies."""
    _removed: dict[str, int] = field(default_factory=dict)
    """resourceVersion at which an object was removed, by UID."""
    _uid_by_name: dict[Name, str] = field(default_factory=dict)
    _uids_by_pool: dict[str, set[str]] = field(default_factory=dict)

    def upsert(self, kind: ResourceKind, raw: Json) -> frozenset[str] | None:
        """Store the current object; return the UIDs of the pools that it may affect.

        A lower resourceVersion is ignored, and an unchanged digest affects no pool.
        """
        meta = raw["metadata"]
        uid, version = meta["uid"], int(meta["resourceVersion"])
        entries = self._entries.setdefault(kind.kind, {})
        before = entries.get(uid)
        if version <= (before.version if before else self._removed.get(uid, -1)):
            return frozenset()
        digest = self._store(kind, uid, raw)
        name = (kind.kind, meta.get("namespace", ""), meta["name"])
        pools = _pools_of(kind, meta)
        entries[uid] = _Entry(version, digest, name, pools)
        self._link(uid, name, pools, before)
        if before is not None and before.digest == digest:
            return frozenset()
        return self._affected(kind, name, pools | (before.pools if before else frozenset()))

    def remove(self, kind: ResourceKind, uid: str, version: int = 0) -> frozenset[str] | None:
        """Remove an object that was deleted or lost its label; return the UIDs of the pools that it may affect.

        `version` is its resourceVersion at that time: a late response to an older write does not restore it.
        """
        self._removed[uid] = version
        if len(self._removed) > MAX_TOMBSTONES:
            del self._removed[next(iter(self._removed))]
        entry = self._entries.get(kind.kind, {}).pop(uid, None)
        if entry is None:
            return frozenset()
        pool = self.pools.get(uid) or self.unreadable.get(uid)
        if pool is not None:
            self.deleted[uid] = pool
        for table in (self.pools, self.unreadable, self.policies, self.unreadable_policies,
                      self.children, self.pod_sets, self.pods):  # fmt: skip
            table.pop(uid, None)
        self.created_without_apply.discard(uid)
        self._partial_policies.discard(uid)
        namespace = self.namespaces.get(entry.name[2]) if kind is kinds.NAMESPACE else None
        if namespace is not None and namespace.uid == uid:
            del self.namespaces[namespace.name]
        if self._uid_by_name.get(entry.name) == uid:
            del self._uid_by_name[entry.name]
        self._unlink(uid, entry.pools)
        return self._affected(kind, entry.name, entry.pools)

    def known(self, kind: ResourceKind, namespace: str | None = None) -> Mapping[str, int]:
        """Return the resourceVersions of all objects of a kind, in one namespace or all, by UID."""
        entries = self._entries.get(kind.kind, {})
        return {
            uid: entry.version
            for uid, entry in entries.items()
            if namespace in (None, entry.name[1])
        }

    def count(self, kind: ResourceKind, namespace: str | None = None) -> int:
        """Return the number of objects of a kind, in one namespace or all."""
        entries = self._entries.get(kind.kind, {})
        if namespace is None:
            return len(entries)
        return sum(entry.name[1] == namespace for entry in entries.values())

    def by_name(self, kind: ResourceKind, namespace: str, name: str) -> ChildObject | None:
        """Return the child of this name, if it is in the store."""
        return self.children.get(self._uid_by_name.get((kind.kind, namespace, name), ""))

    def pool_by_name(self, namespace: str, name: str) -> PoolObject | None:
        """Return the pool of this name, if it is in the store and readable."""
        return self.pools.get(self._uid_by_name.get((kinds.POOL.kind, namespace, name), ""))

    def every_pool(self) -> tuple[PoolObject | Unreadable, ...]:
        """Return all pools, unreadable ones included."""
        return (*self.pools.values(), *self.unreadable.values())

    def of_pool(self, pool_uid: str) -> Iterable[str]:
        """Return the UIDs of the pool itself, and of children and pods that its UID labels or controls."""
        return self._uids_by_pool.get(pool_uid, ())

    def _store(self, kind: ResourceKind, uid: str, raw: Json) -> str:
        """Store the record and return the digest of the fields that decisions read."""
        if kind is kinds.POOL:
            return self._store_pool(uid, raw)
        if kind is kinds.POLICY:
            return self._store_policy(uid, raw)
        if kind is kinds.NAMESPACE:
            record = convert.namespace_record(raw)
            self.namespaces[record.name] = record
            return convert.digest([record.labels, record.deleting])
        if kind in (kinds.REPLICA_SET, kinds.STATEFUL_SET):
            self.pod_sets[uid] = convert.pod_set_record(raw)
            return self.pod_sets[uid].controller_uid or ""
        if kind is kinds.POD:
            self.pods[uid] = convert.pod_record(raw)
            return repr(self.pods[uid])
        return self._store_child(kind, uid, raw)

    def _store_pool(self, uid: str, raw: Json) -> str:
        meta = raw["metadata"]
        self.deleted.pop(uid, None)  # its namespace could not be read for a time
        try:
            self.pools[uid] = convert.pool_object(raw)
            self.unreadable.pop(uid, None)
        except ValidationError as error:
            self.pools.pop(uid, None)
            self.unreadable[uid] = Unreadable(
                uid,
                meta["namespace"],
                meta["name"],
                meta.get("generation", 0),
                _first_error(error),
                meta.get("labels") or {},
                "deletionTimestamp" in meta,
                raw.get("status") or {},
                convert.readable_part_of_pool(raw, error),
            )
        keys = ("generation", "labels", "annotations", "deletionTimestamp")
        seen: list[object] = [meta.get(key) for key in keys]
        if variant_owner(meta) is not None:
            seen.append(convert.variant_state(raw.get("status") or {}))
        return convert.digest(seen)

    def _store_policy(self, uid: str, raw: Json) -> str:
        try:
            self.policies[uid] = convert.policy_object(raw)
            self.unreadable_policies.pop(uid, None)
            self._partial_policies.discard(uid)
        except ValidationError as error:
            self._store_unreadable(uid, raw, error)
        return convert.digest([raw["metadata"].get(key) for key in ("generation", "labels")])

    def _store_unreadable(self, uid: str, raw: Json, error: ValidationError) -> None:
        """Keep the last readable spec of a policy, else store the fields that can be parsed: bounds and budgets must not end."""
        part, dropped = convert.readable_part(raw, error)
        if uid in self.policies and uid not in self._partial_policies:
            applies = "its last readable spec stays in force"
        elif part is not None:
            self.policies[uid] = part
            self._partial_policies.add(uid)
            applies = f"it applies without {dropped}"
        else:
            self.policies.pop(uid, None)
            applies = "it does not apply"
        problem = f"{_first_error(error)}: {applies}"
        name = raw["metadata"]["name"]
        self.unreadable_policies[uid] = UnreadablePolicy(name, problem, uid in self.policies)

    def _store_child(self, kind: ResourceKind, uid: str, raw: Json) -> str:
        child = convert.child_object(kind.kind, raw)
        self.children[uid] = child
        if convert.created_without_apply(raw["metadata"]):
            self.created_without_apply.add(uid)
        else:
            self.created_without_apply.discard(uid)
        return convert.child_digest(child)

    def _link(self, uid: str, name: Name, pools: frozenset[str], before: _Entry | None) -> None:
        self._uid_by_name[name] = uid
        self._unlink(uid, (before.pools if before else frozenset()) - pools)
        for pool in pools:
            self._uids_by_pool.setdefault(pool, set()).add(uid)

    def _unlink(self, uid: str, pools: Iterable[str]) -> None:
        for pool in pools:
            self._uids_by_pool.get(pool, set()).discard(uid)
            if not self._uids_by_pool.get(pool):
                self._uids_by_pool.pop(pool, None)
                self.deleted.pop(pool, None)

    def _affected(
        self, kind: ResourceKind, name: Name, pools: frozenset[str]
    ) -> frozenset[str] | None:
        if kind is kinds.NAMESPACE:
            return frozenset(pool.uid for pool in self.pools.values() if pool.namespace == name[2])
        if kind is kinds.POLICY:
            return ALL_POOLS
        return (pools | self._pool_that_needs(kind, name)) - {names.GATEWAY_UID}

    def _pool_that_needs(self, kind: ResourceKind, name: Name) -> frozenset[str]:
        """Return the UID of the pool that has a child of this name: the object of another owner is in its way."""
        pool = name[2] if kind is kinds.SERVICE else name[2].removesuffix(names.CHILD_SUFFIX)
        if kind not in kinds.CHILDREN or kinds.child_name(kind, pool) != name[2]:
            return frozenset()
        uid = self._uid_by_name.get((kinds.POOL.kind, name[1], pool))
        return frozenset() if uid is None else frozenset((uid,))


def _pools_of(kind: ResourceKind, meta: Json) -> frozenset[str]:
    """Return the UIDs of the pools that an object belongs to: its own, its label's, its controller's."""
    if kind is kinds.POOL:
        owner = variant_owner(meta)
        return frozenset((meta["uid"],) if owner is None else (meta["uid"], owner.uid))
    if kind in (kinds.POLICY, kinds.NAMESPACE):
        return frozenset()
    label = (meta.get("labels") or {}).get(names.LABEL_POOL_UID)
    if label == names.GATEWAY_UID and kind in kinds.GATEWAY_CHILDREN:
        return convert.owner_uids(meta) | {label}
    controller = convert.controller_uid(meta) if kind in kinds.CHILDREN else None
    return frozenset(uid for uid in (label, controller) if uid)


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{convert.field_path(first['loc'])}: {first['msg']}"
