"""What is kept of pools' settings: one ConfigMap a pool, in the operator's own namespace. Nobody else's objects."""

from dataclasses import dataclass

from penstock_api import names
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.writer import APPLY, Writer
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiRequest
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.views import record_of
from penstock_operator.observed import ChildObject


@dataclass(frozen=True, slots=True)
class Records:
    """Writes a record where it differs from the one that is held; deletes those of pools that are gone."""

    writer: Writer
    store: ObjectStore

    async def keep(self, pool_uid: str, text: str | None) -> None:
        """Make the pool's record say `text`, or be gone for None.

        Raises:
            ClusterError, NotLeading: as `Writer.write`.
        """
        held = record_of(self.store, pool_uid)
        if text is None:
            if held is not None:
                await self._delete(held)
        elif held is None or (held.manifest.get("data") or {}).get(names.RECORD_FILE) != text:
            await self._apply(pool_uid, text)

    async def sweep(self) -> None:
        """Delete the records of pools that are no more, also of those that went while nobody led.

        Raises:
            ClusterError, NotLeading: as `Writer.write`.
        """
        store = self.store
        for held in [one for one in store.children.values() if self._is_record(one)]:
            uid = held.name.removeprefix(names.RECORD_PREFIX)
            if uid not in store.pools and uid not in store.unreadable:
                await self._delete(held)

    def _is_record(self, one: ChildObject) -> bool:
        mine = one.kind == kinds.CONFIG_MAP.kind and one.namespace == self.store.own_namespace
        return mine and one.name.startswith(names.RECORD_PREFIX)

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

    async def _delete(self, held: ChildObject) -> None:
        path = kinds.CONFIG_MAP.path(held.namespace, held.name)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": held.uid}}
        request = ApiRequest("DELETE", path, body)
        await self.writer.write(kinds.CONFIG_MAP, "delete", request, Urgency.CHILD)
        self.store.remove(kinds.CONFIG_MAP, held.uid)
