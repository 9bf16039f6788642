"""Resync of the object store: compares it with metadata-only lists of every kind, to complete it and to drop stale objects.

kopf reports neither the end of its initial list nor which objects were deleted while a watch was down. A list shows
both: stored objects that it lacks are deleted; listed objects that the store lacks have not arrived by watch yet
(docs/design/design.md#observing). A rejected list (403, 404) ends the operator during startup, and is only logged
later; a namespace that is served by name is instead skipped until it can be read.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock_operator.errors import ObjectNotFound, Rejected
from penstock_operator.kube.client import ApiClient
from penstock_operator.kube.kinds import NAMESPACE, ResourceKind
from penstock_operator.kube.scope import CLUSTER, Scope, WatchScope
from penstock_operator.observe.cluster.cache import ObjectStore

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 120.0
NAMESPACE_SECONDS = 15.0
"""Interval between reads of a namespace without permission to watch it: policies select by its labels, and it may be
terminating. After a failure a list is repeated after this time too."""
AFTER_RELIST_SECONDS = 2.0
"""Time for the burst of events after a relist to pass."""

Enqueue = Callable[[frozenset[str] | None], None]
"""Makes pools due, by UID; None is every pool."""
Watched = tuple[WatchScope, ResourceKind]


@dataclass(slots=True)
class Resync:
    """Compares the store with the API server, and enqueues the pools that a stale object affected."""

    cluster: ApiClient
    store: ObjectStore
    enqueue: Enqueue
    scope: Scope = CLUSTER
    _due: dict[Watched, float] = field(default_factory=dict)
    _complete: set[Watched] = field(default_factory=set)
    _unreadable: set[WatchScope] = field(default_factory=set)
    _arrived: dict[Watched, int] = field(default_factory=dict)
    """Objects in the store at the last round, of kinds that are not complete."""
    _compared: dict[Watched, int] = field(default_factory=dict)
    """Objects in the store at the last comparison."""

    @property
    def complete(self) -> bool:
        """Whether the store has contained all objects of every kind at least once, except in unreadable namespaces."""
        return all(self._is_complete(w) for w in self.scope.watches if w not in self._unreadable)

    def relisted(self, watched: Watched, now: float) -> None:
        """Schedule a comparison because a watch restarted: deletions in between sent no event."""
        if watched in self._complete:
            self._due[watched] = min(
                self._due.get(watched, now + INTERVAL_SECONDS), now + AFTER_RELIST_SECONDS
            )

    async def round(self, now: float) -> None:
        """Compare every kind that is due or not complete with the API server.

        Raises:
            ClusterError: a list failed; its kind is compared again later, and the others in the next round.
        """
        for watch in self.scope.watches:
            try:
                await self._compare_due(watch, now)
            except (ObjectNotFound, Rejected) as error:
                if not self.scope.is_optional(watch):
                    raise
                self._mark_unreadable(watch, error, now)
            else:
                self._mark_readable(watch)

    def _mark_unreadable(self, watch: WatchScope, error: Exception, now: float) -> None:
        """Stop acting in a namespace that cannot be read, until all of its objects were read again."""
        if watch not in self._unreadable:
            log.warning("%s cannot be read: %s", watch, error)
        self._unreadable.add(watch)
        if watch.namespace is not None:
            self.store.partial.add(watch.namespace)
        self._complete -= {(watch, kind) for kind in watch.kinds}
        self._due |= {(watch, kind): now + NAMESPACE_SECONDS for kind in watch.kinds}

    def _mark_readable(self, watch: WatchScope) -> None:
        if watch in self._unreadable and self._is_complete(watch):
            log.info("%s can be read again", watch)
            self._unreadable.discard(watch)
            self.store.partial.discard(watch.namespace or "")
            self.enqueue(None)

    async def _compare_due(self, watch: WatchScope, now: float) -> None:
        if self.scope.is_optional(watch) and now >= self._due.get((watch, NAMESPACE), 0.0):
            self._due[watch, NAMESPACE] = now + NAMESPACE_SECONDS
            path = NAMESPACE.path(None, watch.namespace)
            self.enqueue(self.store.upsert(NAMESPACE, await self.cluster.get(path)))
        for kind in watch.kinds:
            watched = (watch, kind)
            due = now >= self._due.get(watched, 0.0)
            incomplete = watched not in self._complete and watch not in self._unreadable
            if due or (incomplete and self._has_settled(watched)):
                if watched in self._complete:  # if this fails, the next round compares the others
                    self._due[watched] = now + NAMESPACE_SECONDS
                await self._compare(watched)
                self._due[watched] = now + (
                    INTERVAL_SECONDS if watched in self._complete else NAMESPACE_SECONDS
                )

    def _has_settled(self, watched: Watched) -> bool:
        """Return whether no object arrived since the last round, but some since the last comparison, which costs a list."""
        watch, kind = watched
        count = self.store.count(kind, watch.namespace)
        before, self._arrived[watched] = self._arrived.get(watched), count
        return count == before and count != self._compared.get(watched)

    async def _compare(self, watched: Watched) -> None:
        watch, kind = watched
        before = self.store.known(kind, watch.namespace)
        self._compared[watched] = len(before)
        listed = {
            item.uid: int(item.version)
            async for item in self.cluster.list_metadata(kind, watch.namespace)
        }
        for uid in before.keys() - listed.keys():
            # In the store before the list began and not in it: it is deleted, or lost its label.
            log.info("removed stale %s %s: deleted without an event", kind.kind, uid)
            self.enqueue(self.store.remove(kind, uid, before[uid]))
        missing = listed.keys() - self.store.known(kind, watch.namespace).keys()
        if not missing:
            self._complete.add(watched)
        elif watched in self._complete:
            log.warning("%d objects of %s have not arrived by watch yet", len(missing), kind.kind)

    def _is_complete(self, watch: WatchScope) -> bool:
        return all((watch, kind) in self._complete for kind in watch.kinds)
