"""Writes of children: create if absent, server-side apply if owned by the pool, delete by UID; foreign objects are never written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock_api import names
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.writer import APPLY, JSON_PATCH, Writer
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.manifests.writes import altered_field, replaced_field
from penstock_operator.errors import Altered, Conflict, ObjectNotFound, Rejected
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiRequest
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.convert import child_object, controller_uid
from penstock_operator.observed import ChildObject, PoolView, Rejection

Json = Mapping[str, Any]
MANAGER = {"fieldManager": names.FIELD_MANAGER}


@dataclass(frozen=True, slots=True)
class Children:
    """Writes children, and stores each response, so that the next pass need not wait for the watch."""

    writer: Writer
    store: ObjectStore
    urgency: Urgency = Urgency.CHILD

    async def write(self, view: PoolView, write: ChildWrite) -> None:
        """Execute one write of a plan that was made from `view`.

        Raises:
            Conflict: the child changed, appeared, or is not owned by the pool: read it again.
            Altered: a mutating webhook replaced a value of the write.
            Rejected: another owner has the name of a ControllerRevision.
            ClusterError, NotLeading: as `Writer.write`.
        """
        kind = kinds.BY_KIND[write.kind]
        if write.write is Write.CREATE:
            await self._create(view, kind, write.manifest)
        elif write.write is Write.APPLY:
            await self._apply(kind, write.manifest, _owned(view, write))
        elif write.write is Write.REPLACE:
            await self._replace(kind, write.manifest)
        else:
            await self._delete(kind, write.manifest["metadata"])

    async def _create(self, view: PoolView, kind: ResourceKind, manifest: Json) -> None:
        request = ApiRequest("POST", kind.path(view.pool.namespace), manifest, MANAGER)
        try:
            answer = await self._send(kind, "create", request)
        except Conflict as error:
            if kind is not kinds.REVISION:  # a GET confirms that the others are absent
                raise
            await self._delete_unlabelled(view, kind, manifest, error)
            answer = await self._send(kind, "create", request)
        _check(kind, altered_field(answer, manifest), answer)

    async def _delete_unlabelled(
        self, view: PoolView, kind: ResourceKind, manifest: Json, conflict: Conflict
    ) -> None:
        """Delete the pool's own revision that lost its label, so that no list or watch contains it.

        A patch cannot restore the label: the API server compares the data of a revision byte for byte, and rejects any
        write that went through JSON.
        """
        name = manifest["metadata"]["name"]
        live = (await self.writer.cluster.get(kind.path(view.pool.namespace, name)))["metadata"]
        if (live.get("labels") or {}).get(names.LABEL_POOL_UID) == view.pool.uid:
            raise conflict  # its watch event is on the way
        if controller_uid(live) != view.pool.uid or "deletionTimestamp" in live:
            why = f"{conflict.message}, and this pool does not control it or it is being deleted"
            raise Rejected(conflict.status, conflict.reason, why)
        await self._delete(kind, live)

    async def _apply(self, kind: ResourceKind, manifest: Json, child: ChildObject) -> None:
        path = kind.path(child.namespace, child.name)
        metadata = {**manifest["metadata"], "uid": child.uid}
        if child.uid in self.store.created_without_apply:
            metadata |= await self._move_ownership(kind, child, metadata.get("resourceVersion"))
        query = {**MANAGER, "force": "true"}
        body = {**manifest, "metadata": metadata}
        answer = await self._send(kind, "apply", ApiRequest("PATCH", path, body, query, APPLY))
        _check(kind, altered_field(answer, body), answer)

    async def _replace(self, kind: ResourceKind, manifest: Json) -> None:
        """Replace whole parts of an object, so that fields that other writers added go too."""
        metadata = manifest["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        version = metadata["resourceVersion"]
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/metadata/labels", "value": metadata["labels"]},
            {"op": "add", "path": "/metadata/annotations", "value": metadata["annotations"]},
            {"op": "replace", "path": "/spec", "value": manifest["spec"]},
        ]
        request = ApiRequest("PATCH", path, patch, MANAGER, JSON_PATCH)
        answer = await self._send(kind, "patch", request)
        _check(kind, replaced_field(answer, manifest), answer)

    async def _move_ownership(
        self, kind: ResourceKind, child: ChildObject, version: str | None
    ) -> Json:
        """Move field ownership from the plain create to applies; return the new resourceVersion.

        Otherwise a field that a later apply leaves out would stay forever, owned by the create. client-go's `csaupgrade`
        does the same.
        """
        path = kind.path(child.namespace, child.name)
        live = (await self.writer.cluster.get(path))["metadata"]
        if version not in (None, live["resourceVersion"]) or live["uid"] != child.uid:
            raise Conflict(409, "Conflict", f"{kind.kind} {child.name} changed since it was read")
        fields = apply_owned(live.get("managedFields") or [])
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
            await self.writer.write(kind, "delete", ApiRequest("DELETE", path, body), self.urgency)
        except ObjectNotFound:
            self.store.remove(kind, metadata["uid"])

    async def _send(self, kind: ResourceKind, verb: str, request: ApiRequest) -> Json:
        answer = await self.writer.write(kind, verb, request, self.urgency)
        if kind is not kinds.POOL:  # its watch event makes the pool itself due
            self.store.upsert(kind, answer)
        return answer


def _check(kind: ResourceKind, field: str, answer: Json) -> None:
    """Raise `Altered` if the API server stored a different value for `field`."""
    if field:
        message = f"a mutating webhook replaced {field}"
        raise Altered(Rejection.ALTERED, message, _compared(kind, answer))


def _compared(kind: ResourceKind, answer: Json) -> Json:
    """Return the object as in `ChildWrite.live`, without the large fields that only the API server writes."""
    if kind is not kinds.POOL:
        return child_object(kind.kind, answer).manifest
    metadata = answer["metadata"]
    own = {key: metadata.get(key) for key in ("labels", "annotations", "resourceVersion")}
    return {"metadata": own, "spec": metadata["generation"]}


def apply_owned(managed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return managed fields in which the operator's Update entry is replaced by an Apply entry."""
    applied = any(_is_own(entry, "Apply") for entry in managed)
    kept = [entry for entry in managed if not (applied and _is_own(entry, "Update"))]
    return [
        {**entry, "operation": "Apply"} if _is_own(entry, "Update") else entry for entry in kept
    ]


def _is_own(entry: Json, operation: str) -> bool:
    return (
        entry.get("manager") == names.FIELD_MANAGER
        and entry.get("operation") == operation
        and not entry.get("subresource")
    )


def _owned(view: PoolView, write: ChildWrite) -> ChildObject:
    """Return the child in the view. Raises `Conflict` if neither the pool nor its namespace's gateway has it."""
    name = write.manifest["metadata"]["name"]
    if (shared := view.gateway.children.get((write.kind, name))) is not None:
        return shared
    children = {(child.kind, child.name): child for child in view.revisions} | dict(view.children)
    child = children.get((write.kind, name))
    if child is None or child.controller_uid != view.pool.uid:
        raise Conflict(409, "NotOurs", f"{write.kind} {name} is not controlled by this pool")
    return child
