"""Settings records: one ConfigMap per pool in the operator's own namespace, with the last accepted settings."""

from dataclasses import dataclass, field

from penstock_api import names
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.writer import APPLY, Writer
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiRequest
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.views import record_of
from penstock_operator.observed import ChildObject

SWEEP_SECONDS = 300.0


@dataclass(slots=True)
class SettingsRecords:
    """Writes a record where it differs from the stored one; deletes those of deleted pools."""

    writer: Writer
    store: ObjectStore
    _sweep_at: float = field(default=0.0)
    """When the next sweep is due, in monotonic seconds."""

    async def keep(self, pool_uid: str, text: str | None) -> None:
        """Write `text` to the pool's record, or delete the record if `text` is None.

        Raises:
            ClusterError, NotLeading: as `Writer.write`.
        """
        record = record_of(self.store, pool_uid)
        if text is None:
            if record is not None:
                await self._delete(record)
        elif record is None or (record.manifest.get("data") or {}).get(names.RECORD_FILE) != text:
            await self._apply(pool_uid, text)

    def request_sweep(self) -> None:
        """Make the next sweep due at once: a pool was deleted."""
        self._sweep_at = 0.0

    def sweep_due(self, now: float) -> bool:
        """Return whether to sweep at `now`; never while a namespace cannot be read, because its pools would look deleted."""
        return now >= self._sweep_at and not self.store.partial

    async def sweep(self, now: float) -> None:
        """Delete the records of deleted pools, including those deleted while no process led.

        Raises:
            ClusterError, NotLeading: as `Writer.write`.
        """
        self._sweep_at = now + SWEEP_SECONDS
        store = self.store
        for record in [child for child in store.children.values() if self._is_record(child)]:
            uid = record.name.removeprefix(names.RECORD_PREFIX)
            if uid not in store.pools and uid not in store.unreadable:
                await self._delete(record)

    def _is_record(self, child: ChildObject) -> bool:
        own = child.kind == kinds.CONFIG_MAP.kind and child.namespace == self.store.own_namespace
        return own and child.name.startswith(names.RECORD_PREFIX)

    async def _apply(self, pool_uid: str, text: str) -> None:
        name, namespace = names.RECORD_PREFIX + pool_uid, self.store.own_namespace
        labels = {
            names.LABEL_POOL_UID: pool_uid,
            names.LABEL_APP_PART_OF: "penstock",
            names.LABEL_APP_MANAGED_BY: "penstock-operator",
        }
        manifest = {
            "apiVersion": kinds.CONFIG_MAP.api_version,
            "kind": kinds.CONFIG_MAP.kind,
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "data": {names.RECORD_FILE: text},
        }
        query = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
        path = kinds.CONFIG_MAP.path(namespace, name)
        request = ApiRequest("PATCH", path, manifest, query, APPLY)
        answer = await self.writer.write(kinds.CONFIG_MAP, "apply", request, Urgency.CHILD)
        self.store.upsert(kinds.CONFIG_MAP, answer)

    async def _delete(self, record: ChildObject) -> None:
        path = kinds.CONFIG_MAP.path(record.namespace, record.name)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": record.uid}}
        request = ApiRequest("DELETE", path, body)
        await self.writer.write(kinds.CONFIG_MAP, "delete", request, Urgency.CHILD)
        self.store.remove(kinds.CONFIG_MAP, record.uid)
