"""Is the store complete, and free of ghosts? Compared with metadata-only lists of every watched kind.

`kopf` neither says when its first listing is over nor what vanished while a watch was down. The list answers
both: objects that it lacks are gone; objects that the store lacks are still to come (DESIGN, section 5).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock_operator.cluster import Cluster
from penstock_operator.kinds import WATCHED, Kind
from penstock_operator.observe.objects import ObjectStore

log = logging.getLogger(__name__)

EVERY_SECONDS = 120.0
AFTER_RELIST_SECONDS = 2.0
"""A re-list arrives as many events: wait for the burst to be over."""

Wake = Callable[[frozenset[str] | None], None]


@dataclass(slots=True)
class Resync:
    """Keeps the store honest; `wake` is told the pools that a ghost mattered to."""

    cluster: Cluster
    store: ObjectStore
    wake: Wake
    _due: dict[str, float] = field(default_factory=dict)
    _complete: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether the store has held all there was, of every kind, at least once."""
        return len(self._complete) == len(WATCHED)

    def relisted(self, kind: Kind, now: float) -> None:
        """Note that a watch began anew: what vanished meanwhile was not said."""
        if kind.kind in self._complete:
            self._due[kind.kind] = min(
                self._due.get(kind.kind, now + EVERY_SECONDS), now + AFTER_RELIST_SECONDS
            )

    async def round(self, now: float) -> None:
        """Compare every kind that is due, or not complete yet, with the API server.

        Raises:
            ClusterError: the API server would not list.
        """
        for kind in WATCHED:
            if kind.kind not in self._complete or now >= self._due.get(kind.kind, 0.0):
                await self._compare(kind)
                self._due[kind.kind] = now + EVERY_SECONDS

    async def _compare(self, kind: Kind) -> None:
        before = self.store.known(kind)
        listed = {
            meta["uid"]: int(meta["resourceVersion"])
            async for meta in self.cluster.list_metadata(kind)
        }
        for uid in before.keys() - listed.keys():
            # Seen before the list began and not in it: gone, or its label is.
            log.info("%s %s was gone unseen", kind.kind, uid)
            self.wake(self.store.forget(kind, uid, before[uid]))
        missing = listed.keys() - self.store.known(kind).keys()
        if not missing:
            self._complete.add(kind.kind)
        elif kind.kind in self._complete:
            log.warning("%d objects of %s have not been seen yet", len(missing), kind.kind)
