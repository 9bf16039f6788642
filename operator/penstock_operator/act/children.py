"""Children: plain create where absent, server-side apply where ours, delete by UID. Never force on a stranger."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock_api import names
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.writer import APPLY, JSON_PATCH, Writer
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.errors import Conflict, ObjectNotFound
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiRequest
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observed import ChildObject, PoolView

Json = Mapping[str, Any]
MANAGER = {"fieldManager": names.FIELD_MANAGER}


@dataclass(frozen=True, slots=True)
class Children:
    """Writes children; every answer goes to the store, so that the next pass need not wait for the watch."""

    writer: Writer
    store: ObjectStore

    async def write(self, view: PoolView, write: ChildWrite) -> None:
        """Make one write of a plan that was made from `view`.

        Raises:
            Conflict: the child changed, appeared or is not ours: look again.
            ClusterError, NotLeading: as `Writer.write`.
        """
        kind = kinds.BY_KIND[write.kind]
        if write.write is Write.CREATE:
            await self._create(kind, write.manifest)
        elif write.write is Write.APPLY:
            await self._apply(kind, write.manifest, _ours(view, write))
        else:
            await self._delete(kind, write.manifest["metadata"])

    async def _create(self, kind: ResourceKind, manifest: Json) -> None:
        path = kind.path(manifest["metadata"]["namespace"])
        await self._send(kind, "create", ApiRequest("POST", path, manifest, MANAGER))

    async def _apply(self, kind: ResourceKind, manifest: Json, held: ChildObject) -> None:
        path = kind.path(held.namespace, held.name)
        metadata = {**manifest["metadata"], "uid": held.uid}
        if held.uid in self.store.created_plainly:
            metadata |= await self._hand_over(kind, held, metadata.get("resourceVersion"))
        query = {**MANAGER, "force": "true"}
        body = {**manifest, "metadata": metadata}
        await self._send(kind, "apply", ApiRequest("PATCH", path, body, query, APPLY))

    async def _hand_over(self, kind: ResourceKind, held: ChildObject, version: str | None) -> Json:
        """Turn what our plain create owns into what our applies own; return the resourceVersion to go on from.

        Otherwise a field that is left out of an apply would stay for ever, owned by the create (the same
        turn that client-go's `csaupgrade` does).
        """
        path = kind.path(held.namespace, held.name)
        live = (await self.writer.cluster.get(path))["metadata"]
        if version not in (None, live["resourceVersion"]) or live["uid"] != held.uid:
            raise Conflict(409, "Conflict", f"{kind.kind} {held.name} changed since it was read")
        fields = handed_over(live.get("managedFields") or [])
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": fields},
            {
                "op": "replace",
                "path": "/metadata/resourceVersion",
                "value": live["resourceVersion"],
            },
        ]
        answer = await self._send(kind, "patch", ApiRequest("PATCH", path, patch, {}, JSON_PATCH))
        return {"resourceVersion": answer["metadata"]["resourceVersion"]}

    async def _delete(self, kind: ResourceKind, metadata: Json) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": metadata["uid"]},
            "propagationPolicy": "Background",
        }
        path = kind.path(metadata["namespace"], metadata["name"])
        try:
            await self.writer.write(kind, "delete", ApiRequest("DELETE", path, body), Urgency.CHILD)
        except ObjectNotFound:
            self.store.remove(kind, metadata["uid"])

    async def _send(self, kind: ResourceKind, verb: str, request: ApiRequest) -> Json:
        answer = await self.writer.write(kind, verb, request, Urgency.CHILD)
        self.store.upsert(kind, answer)
        return answer


def handed_over(managed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return managed fields in which our Update entry has become our Apply entry."""
    applied = any(_is_ours(one, "Apply") for one in managed)
    kept = [one for one in managed if not (applied and _is_ours(one, "Update"))]
    return [{**one, "operation": "Apply"} if _is_ours(one, "Update") else one for one in kept]


def _is_ours(entry: Json, operation: str) -> bool:
    return (
        entry.get("manager") == names.FIELD_MANAGER
        and entry.get("operation") == operation
        and not entry.get("subresource")
    )


def _ours(view: PoolView, write: ChildWrite) -> ChildObject:
    """Return the child as the plan saw it, if the pool controls it; a stranger is never applied to."""
    name = write.manifest["metadata"]["name"]
    among = {(one.kind, one.name): one for one in view.revisions} | dict(view.children)
    held = among.get((write.kind, name))
    if held is None or held.controller_uid != view.pool.uid:
        raise Conflict(409, "NotOurs", f"{write.kind} {name} is not controlled by this pool")
    return held
