"""Is a child really absent? The store lists by label, so a foreign object under a child's name is not in it.

Absence is confirmed by a GET of the name before anything is created (docs/design/design.md#observing). What is
found there is remembered for a while, so that a pool in conflict costs a few reads a minute and heals by
itself once the name is free.
"""

import asyncio
from dataclasses import dataclass, field

from penstock_operator.errors import ObjectNotFound
from penstock_operator.kube.client import ApiClient
from penstock_operator.kube.kinds import NAMED_CHILDREN, ResourceKind
from penstock_operator.observe.cluster import convert
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.views import child_keys
from penstock_operator.observed import ChildObject, PoolObject
from penstock_operator.reconcile_state import ChildKey

FOUND_SECONDS = 4.0
"""How long a foreign object is believed to be still there: less than a tick, so that a freed name heals in one."""


@dataclass(frozen=True, slots=True)
class _Found:
    child: ChildObject
    at: float


@dataclass(slots=True)
class Confirmations:
    """What GETs found under the child names that the store lacks."""

    cluster: ApiClient
    store: ObjectStore
    named: tuple[ResourceKind, ...] = NAMED_CHILDREN
    """The kinds of children that every pool is to have."""
    _found: dict[str, dict[ChildKey, _Found]] = field(default_factory=dict)

    async def confirm(self, pool: PoolObject, now: float) -> dict[ChildKey, ChildObject]:
        """Return what is under the pool's child names though the store lacks it.

        Raises:
            ClusterError: the API server would not say; nothing may be created on that footing.
        """
        missing = [
            (kind, name)
            for kind, name in child_keys(pool, self.named)
            if self.store.by_name(kind, pool.namespace, name) is None
        ]
        known = self._found.get(pool.uid, {})
        answers = await asyncio.gather(
            *(self._look(kind, pool.namespace, name, known, now) for kind, name in missing)
        )
        found = {
            (kind.kind, name): one
            for (kind, name), one in zip(missing, answers, strict=True)
            if one is not None
        }
        self._remember(pool.uid, found)
        return {key: one.child for key, one in found.items()}

    def has_foreign(self, pool_uid: str) -> bool:
        """Return whether anything was found under a name that the pool's children should have."""
        return pool_uid in self._found

    def forget(self, pool_uid: str) -> None:
        """Look again at the next visit."""
        self._found.pop(pool_uid, None)

    async def _look(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        known: dict[ChildKey, _Found],
        now: float,
    ) -> _Found | None:
        held = known.get((kind.kind, name))
        if held is not None and now - held.at < FOUND_SECONDS:
            return held
        try:
            raw = await self.cluster.get(kind.path(namespace, name))
        except ObjectNotFound:
            return None
        return _Found(convert.child_object(kind.kind, raw), now)

    def _remember(self, pool_uid: str, found: dict[ChildKey, _Found]) -> None:
        if found:
            self._found[pool_uid] = found
        else:
            self._found.pop(pool_uid, None)
