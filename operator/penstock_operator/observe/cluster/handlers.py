"""kopf, and nothing but kopf: every handler hands what it saw to the store and wakes the pass.

Only `on.event`, `startup` and `login`: the other kinds of handler write annotations or finalizers, from a
standby too (docs/design/design.md#observing). A 403 on any watched kind ends the operator.

What kopf would keep of each object to find what changed: nothing, for every pass looks at all there is.

kopf's own storages copy each object of each event three times over to compare it with the one before, for handlers of
changes, of which we have none: an eighth of all CPU while 1,000 pools start (measured). These copy nothing, and write nothing.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any

import kopf
from kopf._cogs.configs.progress import (
    ProgressRecord,  # kopf's own top level does not name the type
)
from kopf._cogs.structs.dicts import FieldSpec  # likewise

from penstock_operator.kube.kinds import WATCHED
from penstock_operator.kube.scope import WatchScope
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.relist import Enqueue, Resync, Watched

CHUNK = 500
REQUEST_SECONDS = 30.0
LINGER_SECONDS = 0.5
"""How long kopf keeps a task, a queue and the last event of an object that nothing happens to. At kopf's own 5 s, a start over
thousands of objects holds all of them at once: some 15 KB each (measured)."""


class EndlessBackoff:
    """kopf's pauses between attempts, without an end: an API server that restarts is no reason to end."""

    def __iter__(self) -> Iterator[float]:
        """Yield 1, 2, 4 and then 8 s for ever."""
        yield from (1.0, 2.0, 4.0)
        while True:
            yield 8.0


def registry(
    store: ObjectStore, resync: Resync, enqueue: Enqueue, place: WatchScope
) -> kopf.OperatorRegistry:
    """Return kopf's registry with a handler for every kind that is watched in a place."""
    made = kopf.OperatorRegistry()
    kopf.on.login(registry=made)(log_in)
    for kind in place.kinds:
        _watch(made, (place, kind), store, resync, enqueue)
    return made


def _watch(
    made: kopf.OperatorRegistry,
    watched: Watched,
    store: ObjectStore,
    resync: Resync,
    enqueue: Enqueue,
) -> None:
    kind = watched[1]

    @kopf.on.event(kind.group, kind.version, kind.plural, registry=made, id=kind.plural)
    async def seen(event: Any, **_: Any) -> None:
        meta = event["object"]["metadata"]
        if event["type"] is None:
            resync.relisted(watched, time.monotonic())
        if event["type"] == "DELETED":
            enqueue(store.remove(kind, meta["uid"], int(meta["resourceVersion"])))
        else:
            enqueue(store.upsert(kind, event["object"]))


def log_in(**more: Any) -> kopf.ConnectionInfo | None:
    """Return credentials: the pod's own, else the kubeconfig's."""
    return kopf.login_with_service_account(**more) or kopf.login_with_kubeconfig(**more)


def settings() -> kopf.OperatorSettings:
    """Return kopf's settings: it reads, in chunks and by label, and does nothing else."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.peering.standalone = True
    made.scanning.disabled = True
    made.persistence.diffbase_storage = NullDiffBase()
    made.persistence.progress_storage = NullProgress()
    made.queueing.idle_timeout = LINGER_SECONDS
    made.watching.chunk_size = CHUNK
    made.networking.request_timeout = REQUEST_SECONDS
    made.networking.error_backoffs = EndlessBackoff()
    for kind in WATCHED:
        if kind.label_selector:
            key = (kind.group, kind.version, kind.plural)
            made.watching.label_selectors[key] = kind.label_selector
    return made


class NullDiffBase(kopf.DiffBaseStorage):
    """Every object is like any other."""

    def build(
        self, *, body: kopf.Body, extra_fields: Iterable[FieldSpec] | None = None
    ) -> kopf.BodyEssence:
        """Return what is compared: nothing."""
        del body, extra_fields
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        """Return what was kept: nothing."""
        del body

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Keep nothing."""


class NullProgress(kopf.ProgressStorage):
    """No handler is ever under way."""

    def fetch(self, *, key: kopf.HandlerId, body: kopf.Body) -> None:
        """Return how far a handler has come: none has begun."""
        del key, body

    def store(
        self, *, key: kopf.HandlerId, record: ProgressRecord, body: kopf.Body, patch: kopf.Patch
    ) -> None:
        """Keep nothing."""

    def purge(self, *, key: kopf.HandlerId, body: kopf.Body, patch: kopf.Patch) -> None:
        """Forget what was never kept."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Write nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return what is left without progress: all of it, itself."""
        return essence
