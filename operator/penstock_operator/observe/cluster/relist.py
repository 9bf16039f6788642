"""Is the store complete, and free of ghosts? Compared with metadata-only lists of every kind, place by place.

`kopf` neither says when its first listing is over nor what vanished while a watch was down. The list answers
both: objects that it lacks are gone; objects that the store lacks are still to come (docs/design/design.md#observing).
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

EVERY_SECONDS = 120.0
NAMESPACE_SECONDS = 15.0
"""How often a namespace is read that may not be watched: its labels select policies, and it may be going."""
AFTER_RELIST_SECONDS = 2.0
"""A re-list arrives as many events: wait for the burst to be over."""

Enqueue = Callable[[frozenset[str] | None], None]
Watched = tuple[WatchScope, ResourceKind]


@dataclass(slots=True)
class Resync:
    """Keeps the store honest; `enqueue` is told the pools that a ghost mattered to."""

    cluster: ApiClient
    store: ObjectStore
    enqueue: Enqueue
    scope: Scope = CLUSTER
    _due: dict[Watched, float] = field(default_factory=dict)
    _complete: set[Watched] = field(default_factory=set)
    _lost: set[WatchScope] = field(default_factory=set)
    _arriving: dict[Watched, int] = field(default_factory=dict)
    """How many objects had been seen at the last turn, of kinds that are not complete."""
    _compared: dict[Watched, int] = field(default_factory=dict)
    """How many had been seen when they were last compared."""

    @property
    def complete(self) -> bool:
        """Whether the store has held all there was, of every kind, at least once; lost places aside."""
        return all(self._holds(place) for place in self.scope.places if place not in self._lost)

    def relisted(self, watched: Watched, now: float) -> None:
        """Note that a watch began anew: what vanished meanwhile was not said."""
        if watched in self._complete:
            self._due[watched] = min(
                self._due.get(watched, now + EVERY_SECONDS), now + AFTER_RELIST_SECONDS
            )

    def lose(self, place: WatchScope) -> None:
        """Note that a namespace cannot be read any more, or not yet: nothing is done there until all was seen again."""
        self._lost.add(place)
        if place.namespace is not None:
            self.store.partial.add(place.namespace)
        self._complete -= {(place, kind) for kind in place.kinds}

    async def round(self, now: float) -> None:
        """Compare every kind that is due, or not complete yet, with the API server.

        Raises:
            ClusterError: the API server would not list.
        """
        for place in self.scope.places:
            try:
                await self._place(place, now)
            except (ObjectNotFound, Rejected) as error:
                if not self.scope.may_lose(place):
                    raise
                if place not in self._lost:
                    log.warning("%s cannot be read: %s", place, error)
                self.lose(place)
                self._due |= {(place, kind): now + NAMESPACE_SECONDS for kind in place.kinds}
            else:
                if place in self._lost and self._holds(place):
                    log.info("%s can be read", place)
                    self._lost.discard(place)
                    self.store.partial.discard(place.namespace or "")
                    self.enqueue(None)

    async def _place(self, place: WatchScope, now: float) -> None:
        if self.scope.may_lose(place) and now >= self._due.get((place, NAMESPACE), 0.0):
            self._due[place, NAMESPACE] = now + NAMESPACE_SECONDS
            path = NAMESPACE.path(None, place.namespace)
            self.enqueue(self.store.upsert(NAMESPACE, await self.cluster.get(path)))
        for kind in place.kinds:
            watched = (place, kind)
            due = now >= self._due.get(watched, 0.0)
            waits = watched not in self._complete and place not in self._lost
            if due or (waits and self._settled(watched)):
                await self._compare(watched)
                self._due[watched] = now + (
                    EVERY_SECONDS if watched in self._complete else NAMESPACE_SECONDS
                )

    def _settled(self, watched: Watched) -> bool:
        """Return whether a kind's first listing has come to rest since it was last compared: comparing costs a list."""
        place, kind = watched
        seen = self.store.count(kind, place.namespace)
        before, self._arriving[watched] = self._arriving.get(watched), seen
        return seen == before and seen != self._compared.get(watched)

    async def _compare(self, watched: Watched) -> None:
        place, kind = watched
        before = self.store.known(kind, place.namespace)
        self._compared[watched] = len(before)
        listed = {
            one.uid: int(one.version)
            async for one in self.cluster.list_metadata(kind, place.namespace)
        }
        for uid in before.keys() - listed.keys():
            # Seen before the list began and not in it: gone, or its label is.
            log.info("%s %s was gone unseen", kind.kind, uid)
            self.enqueue(self.store.remove(kind, uid, before[uid]))
        missing = listed.keys() - self.store.known(kind, place.namespace).keys()
        if not missing:
            self._complete.add(watched)
        elif watched in self._complete:
            log.warning("%d objects of %s have not been seen yet", len(missing), kind.kind)

    def _holds(self, place: WatchScope) -> bool:
        return all((place, kind) in self._complete for kind in place.kinds)
