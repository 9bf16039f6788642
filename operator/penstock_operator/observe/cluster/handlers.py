"""kopf handlers and settings: each event goes to the object store and makes its pools due.

Only `on.event` and `login` handlers are registered: the other kinds write annotations or finalizers, even on a standby
(docs/design/design.md#observing). kopf retries every rejected request forever, 403 included; `Resync` decides whether
a rejection ends the operator.

NullDiffBase and NullProgress replace kopf's storages, which copy each object of each event to detect changes for handlers
that do not exist here.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any

import kopf
from kopf._cogs.configs.progress import (
    ProgressRecord,  # not exported by kopf's top level
)
from kopf._cogs.structs.dicts import FieldSpec  # likewise
from typing_extensions import override

from penstock_operator.kube.kinds import BY_KIND
from penstock_operator.kube.scope import WatchScope
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.relist import Enqueue, Resync, Watched

CHUNK = 500
REQUEST_SECONDS = 30.0
IDLE_SECONDS = 0.5
"""Time for which kopf keeps a task, a queue and the last event of an idle object, some 15 KB each. With kopf's default of
5 s, a start with thousands of objects keeps all of them at once."""


class EndlessBackoff:
    """Endless delays between kopf's attempts, so that the operator survives a restart of the API server."""

    def __iter__(self) -> Iterator[float]:
        """Yield 1, 2, 4 and then 8 s forever."""
        yield from (1.0, 2.0, 4.0)
        while True:
            yield 8.0


def registry(
    store: ObjectStore, resync: Resync, enqueue: Enqueue, watch: WatchScope
) -> kopf.OperatorRegistry:
    """Return kopf's registry with a handler for every watched kind."""
    handlers = kopf.OperatorRegistry()
    kopf.on.login(registry=handlers)(log_in)
    for kind in watch.kinds:
        _register(handlers, (watch, kind), store, resync, enqueue)
    return handlers


def _register(
    handlers: kopf.OperatorRegistry,
    watched: Watched,
    store: ObjectStore,
    resync: Resync,
    enqueue: Enqueue,
) -> None:
    kind = watched[1]

    @kopf.on.event(kind.group, kind.version, kind.plural, registry=handlers, id=kind.plural)
    async def on_event(event: Any, **_: Any) -> None:
        meta = event["object"]["metadata"]
        if event["type"] is None:
            resync.relisted(watched, time.monotonic())
        if event["type"] == "DELETED":
            enqueue(store.remove(kind, meta["uid"], int(meta["resourceVersion"])))
        else:
            enqueue(store.upsert(kind, event["object"]))


def log_in(**more: Any) -> kopf.ConnectionInfo | None:
    """Return the credentials of the pod's service account, or else of the kubeconfig."""
    return kopf.login_with_service_account(**more) or kopf.login_with_kubeconfig(**more)


def settings() -> kopf.OperatorSettings:
    """Return kopf's settings: it lists in chunks, selects by label, and writes nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.persistence.diffbase_storage = NullDiffBase()
    settings.persistence.progress_storage = NullProgress()
    settings.queueing.idle_timeout = IDLE_SECONDS
    settings.watching.chunk_size = CHUNK
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.error_backoffs = EndlessBackoff()
    for kind in BY_KIND.values():
        if kind.label_selector:
            key = (kind.group, kind.version, kind.plural)
            settings.watching.label_selectors[key] = kind.label_selector
    return settings


class NullDiffBase(kopf.DiffBaseStorage):
    """Stores nothing for the detection of changes."""

    @override
    def build(
        self, *, body: kopf.Body, extra_fields: Iterable[FieldSpec] | None = None
    ) -> kopf.BodyEssence:
        del body, extra_fields
        return kopf.BodyEssence()

    @override
    def fetch(self, *, body: kopf.Body) -> None:
        del body

    @override
    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        del body, patch, essence


class NullProgress(kopf.ProgressStorage):
    """Stores nothing about the progress of handlers: event handlers have none."""

    @override
    def fetch(self, *, key: kopf.HandlerId, body: kopf.Body) -> None:
        del key, body

    @override
    def store(
        self, *, key: kopf.HandlerId, record: ProgressRecord, body: kopf.Body, patch: kopf.Patch
    ) -> None:
        del key, record, body, patch

    @override
    def purge(self, *, key: kopf.HandlerId, body: kopf.Body, patch: kopf.Patch) -> None:
        del key, body, patch

    @override
    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        del body, patch, value

    @override
    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence
