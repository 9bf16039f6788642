"""The store of what the API server showed: slim records by UID, with the few links decisions follow.

One owner, one thread (the event loop). `see` takes every event and every answer to our own writes;
`purge` drops ghosts, that is objects deleted while a watch was down (docs/design/design.md#observing).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from penstock_api import names
from penstock_operator.kube import kinds
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observe.cluster import convert
from penstock_operator.observe.cluster.convert import NamespaceRecord, PodRecord, ReplicaSetRecord
from penstock_operator.observed import ChildObject, PolicyObject, PoolObject

Json = Mapping[str, Any]
Name = tuple[str, str, str]
"""(kind, namespace, name)."""

MAX_TOMBSTONES = 10_000
ALL_POOLS = None
"""What `see` answers when every pool may be touched."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A pool whose spec this operator cannot read: written under a newer schema."""

    uid: str
    namespace: str
    name: str
    generation: int
    message: str


@dataclass(slots=True)
class _Seen:
    """What is remembered about any object, to tell old news and no news from news."""

    version: int
    digest: str
    name: Name
    pools: frozenset[str]


@dataclass(slots=True)
class ObjectStore:
    """Everything seen, by UID."""

    own_namespace: str = ""
    """The operator's own: records of pools are kept there."""
    pools: dict[str, PoolObject] = field(default_factory=dict)
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    policies: dict[str, PolicyObject] = field(default_factory=dict)
    unreadable_policies: set[str] = field(default_factory=set)
    namespaces: dict[str, NamespaceRecord] = field(default_factory=dict)
    children: dict[str, ChildObject] = field(default_factory=dict)
    replica_sets: dict[str, ReplicaSetRecord] = field(default_factory=dict)
    pods: dict[str, PodRecord] = field(default_factory=dict)
    created_plainly: set[str] = field(default_factory=set)
    """Children whose fields we own by a plain create, not by apply: `act/children.py` hands them over."""
    partial: set[str] = field(default_factory=set)
    """Namespaces that could not be read, and of which not everything has been seen again."""
    _seen: dict[str, dict[str, _Seen]] = field(default_factory=dict)
    _gone: dict[str, int] = field(default_factory=dict)
    _uid_by_name: dict[Name, str] = field(default_factory=dict)
    _uids_by_pool: dict[str, set[str]] = field(default_factory=dict)

    def upsert(self, kind: ResourceKind, raw: Json) -> frozenset[str] | None:
        """Take an object as it is now; return the UIDs of the pools it may matter to.

        Old news (a lower resourceVersion) and no news (the same digest) matter to no pool.
        """
        meta = raw["metadata"]
        uid, version = meta["uid"], int(meta["resourceVersion"])
        seen = self._seen.setdefault(kind.kind, {})
        before = seen.get(uid)
        if version <= (before.version if before else self._gone.get(uid, -1)):
            return frozenset()
        digest = self._keep(kind, uid, raw)
        name = (kind.kind, meta.get("namespace", ""), meta["name"])
        pools = _pools_of(kind, meta)
        seen[uid] = _Seen(version, digest, name, pools)
        self._link(uid, name, pools, before)
        if before is not None and before.digest == digest:
            return frozenset()
        return self._touched(kind, name, pools | (before.pools if before else frozenset()))

    def remove(self, kind: ResourceKind, uid: str, version: int = 0) -> frozenset[str] | None:
        """Drop an object that is gone, or lost its label; return the UIDs of the pools it may matter to.

        `version` is the resourceVersion it went at: a late answer to an older write does not bring it back.
        """
        self._gone[uid] = version
        if len(self._gone) > MAX_TOMBSTONES:
            del self._gone[next(iter(self._gone))]
        seen = self._seen.get(kind.kind, {}).pop(uid, None)
        if seen is None:
            return frozenset()
        for table in (self.pools, self.unreadable, self.policies, self.children,
                      self.replica_sets, self.pods):  # fmt: skip
            table.pop(uid, None)
        self.created_plainly.discard(uid)
        self.unreadable_policies.discard(uid)
        if kind is kinds.NAMESPACE:
            self.namespaces.pop(seen.name[2], None)
        if self._uid_by_name.get(seen.name) == uid:
            del self._uid_by_name[seen.name]
        for pool in seen.pools:
            self._uids_by_pool.get(pool, set()).discard(uid)
            if not self._uids_by_pool.get(pool):
                self._uids_by_pool.pop(pool, None)
        return self._touched(kind, seen.name, seen.pools)

    def known(self, kind: ResourceKind, namespace: str | None = None) -> Mapping[str, int]:
        """Return the resourceVersions of all objects of a kind (in one namespace, or all), by UID."""
        seen = self._seen.get(kind.kind, {})
        return {uid: one.version for uid, one in seen.items() if namespace in (None, one.name[1])}

    def count(self, kind: ResourceKind, namespace: str | None = None) -> int:
        """Return how many objects of a kind are held (in one namespace, or all)."""
        seen = self._seen.get(kind.kind, {})
        if namespace is None:
            return len(seen)
        return sum(one.name[1] == namespace for one in seen.values())

    def by_name(self, kind: ResourceKind, namespace: str, name: str) -> ChildObject | None:
        """Return the child under a name, if one was seen."""
        return self.children.get(self._uid_by_name.get((kind.kind, namespace, name), ""))

    def of_pool(self, pool_uid: str) -> Iterable[str]:
        """Return the UIDs of children and pods that carry or are controlled by a pool's UID."""
        return self._uids_by_pool.get(pool_uid, ())

    def _keep(self, kind: ResourceKind, uid: str, raw: Json) -> str:
        """File the record and return the digest of what matters in it."""
        if kind is kinds.POOL:
            return self._keep_pool(uid, raw)
        if kind is kinds.POLICY:
            return self._keep_policy(uid, raw)
        if kind is kinds.NAMESPACE:
            space = convert.namespace_record(raw)
            self.namespaces[space.name] = space
            return convert.digest([space.labels, space.deleting])
        if kind is kinds.REPLICA_SET:
            self.replica_sets[uid] = convert.replica_set_record(raw)
            return self.replica_sets[uid].controller_uid or ""
        if kind is kinds.POD:
            self.pods[uid] = convert.pod_record(raw)
            return repr(self.pods[uid])
        return self._keep_child(kind, uid, raw)

    def _keep_pool(self, uid: str, raw: Json) -> str:
        meta = raw["metadata"]
        try:
            self.pools[uid] = convert.pool_object(raw)
            self.unreadable.pop(uid, None)
        except ValidationError as error:
            self.pools.pop(uid, None)
            self.unreadable[uid] = Unreadable(
                uid, meta["namespace"], meta["name"], meta.get("generation", 0), _first(error)
            )
        return convert.digest(
            [meta.get(key) for key in ("generation", "labels", "annotations", "deletionTimestamp")]
        )

    def _keep_policy(self, uid: str, raw: Json) -> str:
        try:
            self.policies[uid] = convert.policy_object(raw)
            self.unreadable_policies.discard(uid)
        except ValidationError:
            self.policies.pop(uid, None)
            self.unreadable_policies.add(uid)
        return convert.digest([raw["metadata"].get(key) for key in ("generation", "labels")])

    def _keep_child(self, kind: ResourceKind, uid: str, raw: Json) -> str:
        child = convert.child_object(kind.kind, raw)
        self.children[uid] = child
        if convert.created_plainly(raw["metadata"]):
            self.created_plainly.add(uid)
        else:
            self.created_plainly.discard(uid)
        return convert.child_digest(child)

    def _link(self, uid: str, name: Name, pools: frozenset[str], before: _Seen | None) -> None:
        self._uid_by_name[name] = uid
        for pool in (before.pools if before else frozenset()) - pools:
            self._uids_by_pool.get(pool, set()).discard(uid)
        for pool in pools:
            self._uids_by_pool.setdefault(pool, set()).add(uid)

    def _touched(
        self, kind: ResourceKind, name: Name, pools: frozenset[str]
    ) -> frozenset[str] | None:
        if kind is kinds.NAMESPACE:
            return frozenset(one.uid for one in self.pools.values() if one.namespace == name[2])
        return ALL_POOLS if kind is kinds.POLICY else pools


def _pools_of(kind: ResourceKind, meta: Json) -> frozenset[str]:
    """UIDs of the pools that an object is about: its own, its label's, its controller's."""
    if kind is kinds.POOL:
        return frozenset((meta["uid"],))
    if kind in (kinds.POLICY, kinds.NAMESPACE):
        return frozenset()
    label = (meta.get("labels") or {}).get(names.LABEL_POOL_UID)
    owner = convert.controller_uid(meta) if kind in kinds.CHILDREN else None
    return frozenset(uid for uid in (label, owner) if uid)


def _first(error: ValidationError) -> str:
    one = error.errors(include_url=False)[0]
    return f"spec.{'.'.join(map(str, one['loc']))}: {one['msg']}"
