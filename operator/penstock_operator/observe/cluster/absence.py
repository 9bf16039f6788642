"""Confirmation of absent children: the store lists by label, so it lacks a foreign object that has a child's name.

A GET of the name confirms the absence before anything is created (docs/design/design.md#observing). Foreign objects are
cached for a few seconds, so that a pool in conflict costs few reads and recovers once the name is free.
"""

import asyncio
from dataclasses import dataclass, field

from penstock_api import names
from penstock_operator.errors import ObjectNotFound
from penstock_operator.kube.client import ApiClient
from penstock_operator.kube.kinds import (
    GATEWAY_CHILDREN,
    NAMED_CHILDREN,
    NETWORK_POLICY,
    SERVICE,
    ResourceKind,
)
from penstock_operator.observe.cluster import convert
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.gateway import is_wanted
from penstock_operator.observe.cluster.views import child_keys
from penstock_operator.observed import ChildObject, PoolObject
from penstock_operator.reconcile_state import ChildKey

CACHE_SECONDS = 4.0
"""Time for which a foreign object is cached: less than a tick, so that a freed name is noticed at the next one."""


@dataclass(frozen=True, slots=True)
class _Foreign:
    child: ChildObject
    at: float


@dataclass(slots=True)
class Confirmations:
    """Foreign objects under child names that the store lacks."""

    cluster: ApiClient
    store: ObjectStore
    named: tuple[ResourceKind, ...] = NAMED_CHILDREN
    """The kinds of children that every pool has."""
    gateways: bool = False
    """Whether this installation has a gateway."""
    _foreign: dict[str, dict[ChildKey, _Foreign]] = field(default_factory=dict)

    async def confirm(self, pool: PoolObject, now: float) -> dict[ChildKey, ChildObject]:
        """Return the objects under the pool's child names that the store lacks.

        Raises:
            ClusterError: a GET failed, so nothing may be created.
        """
        missing = [
            (kind, name)
            for kind, name in (*child_keys(pool, self._kinds(pool)), *self._gateway_keys(pool))
            if self.store.by_name(kind, pool.namespace, name) is None
        ]
        known = self._foreign.get(pool.uid, {})
        answers = await asyncio.gather(
            *(self._get(kind, pool.namespace, name, known, now) for kind, name in missing)
        )
        foreign = {
            (kind.kind, name): answer
            for (kind, name), answer in zip(missing, answers, strict=True)
            if answer is not None
        }
        self._cache(pool.uid, foreign)
        return {key: entry.child for key, entry in foreign.items()}

    def _kinds(self, pool: PoolObject) -> tuple[ResourceKind, ...]:
        """Return the kinds of the pool's children: with variants, their pools have the others."""
        return (SERVICE,) if pool.spec.variants else self.named

    def _gateway_keys(self, pool: PoolObject) -> tuple[tuple[ResourceKind, str], ...]:
        if not self.gateways or not is_wanted(pool):
            return ()
        guarded = NETWORK_POLICY in self.named
        return tuple(
            (kind, names.GATEWAY_NAME)
            for kind in GATEWAY_CHILDREN
            if guarded or kind is not NETWORK_POLICY
        )

    def has_foreign(self, pool_uid: str) -> bool:
        """Return whether a foreign object has a name that the pool's children need."""
        return pool_uid in self._foreign

    def forget(self, pool_uid: str) -> None:
        """Drop the cache of a pool, so that the next reconcile reads again."""
        self._foreign.pop(pool_uid, None)

    async def _get(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        known: dict[ChildKey, _Foreign],
        now: float,
    ) -> _Foreign | None:
        cached = known.get((kind.kind, name))
        if cached is not None and 0 <= now - cached.at < CACHE_SECONDS:
            return cached
        try:
            raw = await self.cluster.get(kind.path(namespace, name))
        except ObjectNotFound:
            return None
        return _Foreign(convert.child_object(kind.kind, raw), now)

    def _cache(self, pool_uid: str, foreign: dict[ChildKey, _Foreign]) -> None:
        if foreign:
            self._foreign[pool_uid] = foreign
        else:
            self._foreign.pop(pool_uid, None)
