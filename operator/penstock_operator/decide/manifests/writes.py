"""The write that brings one child object to its desired state.

absent                    -> create
own, as desired           -> no write
own, different            -> apply, with the UID as precondition; a ControllerRevision is deleted and created again,
                             since the API server compares its data byte for byte, order of keys and escapes
                             included, and rejects any write that went through JSON; so are a Service that becomes
                             headless or is no longer, since its address is immutable, and a RoleBinding of another role
own, being deleted        -> no write: it is created once it is gone
of another owner          -> never a write: a name conflict
"""

from collections.abc import Mapping
from typing import Any

from penstock_api import names
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.manifests.diff import covers, digest, first_difference
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.service import is_headless
from penstock_operator.decide.manifests.workload import WORKLOADS
from penstock_operator.observed import ChildObject, PoolObject


def with_hash(manifest: Manifest) -> Manifest:
    """Return `manifest` annotated with its own hash, which reveals fields that are no longer desired.

    The hash excludes replicas: they are compared by value.
    """
    spec = manifest.get("spec", {})
    steady = {k: v for k, v in spec.items() if k != "replicas"}
    own = manifest["metadata"]
    mark = {names.ANNOTATION_APPLIED: digest({**manifest, "spec": steady})}
    return {
        **manifest,
        "metadata": {**own, "annotations": {**own.get("annotations", {}), **mark}},
    }


def foreign(live: ChildObject | None, pool: PoolObject) -> bool:
    """Return whether `live` exists and this pool does not control it."""
    return live is not None and live.controller_uid != pool.uid


def child_write(pool: PoolObject, live: ChildObject | None, desired: Manifest) -> ChildWrite | None:
    """Return the write that brings `live` to the desired state, or None."""
    manifest = with_hash(desired)
    if live is None:
        return ChildWrite(Write.CREATE, manifest["kind"], manifest)
    if live.deleting or foreign(live, pool) or _same(live.manifest, manifest):
        return None
    if _is_immutable(live, manifest):
        return _recreate(live, manifest)
    precondition = {"uid": live.uid}
    if manifest["kind"] in WORKLOADS:
        # Replicas were computed from this version: a later write of another writer has to be observed first.
        precondition["resourceVersion"] = live.resource_version
    own = {**manifest["metadata"], **precondition}
    return ChildWrite(Write.APPLY, manifest["kind"], {**manifest, "metadata": own}, live.manifest)


def shared_write(live: ChildObject | None, desired: Manifest) -> ChildWrite | None:
    """Return the write that brings an object without a controller to its desired state, or None; the caller knows its owners."""
    manifest = with_hash(desired)
    if live is None:
        return ChildWrite(Write.CREATE, manifest["kind"], manifest)
    if live.deleting or _same(live.manifest, manifest):
        return None
    if _is_immutable(live, manifest):
        return _recreate(live, manifest)
    own = {**manifest["metadata"], "uid": live.uid}
    return ChildWrite(Write.APPLY, manifest["kind"], {**manifest, "metadata": own}, live.manifest)


def altered_field(stored: Mapping[str, Any], written: Mapping[str, Any]) -> str:
    """Return the path of the first applied field that the API server stored with a different value; empty without one."""
    own = {k: v for k, v in written["metadata"].items() if k != "resourceVersion"}
    return first_difference(stored, _content({**written, "metadata": own}))


def replaced_field(stored: Mapping[str, Any], written: Mapping[str, Any]) -> str:
    """Return the path of the first field that differs from the replacement, including additional fields; empty without one."""
    before, after = _replaced(written), _replaced(stored)
    return first_difference(after, before) or first_difference(before, after)


def _replaced(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    own = manifest["metadata"]
    kept = {key: own.get(key) or {} for key in ("labels", "annotations")}
    return {"metadata": kept, "spec": manifest["spec"]}


def is_edited(write: ChildWrite, stored: Mapping[str, Any]) -> bool:
    """Return whether another writer changed or deleted what a write sets, since the API server returned `stored`."""
    live = write.live
    if live is None:
        return True
    newer = int(live["metadata"]["resourceVersion"]) > int(stored["metadata"]["resourceVersion"])
    return newer and _part(live, write.manifest) != _part(stored, write.manifest)


def _part(stored: Mapping[str, Any], written: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the labels, the annotations that `written` sets, and the values of its other keys."""
    own = stored["metadata"]
    notes = own.get("annotations") or {}
    annotations = [notes.get(key) for key in written["metadata"].get("annotations") or ()]
    rest = [stored.get(key) for key in _content(written) if key != "metadata"]
    return own.get("labels") or {}, annotations, rest


def _is_immutable(live: ChildObject, desired: Manifest) -> bool:
    """Return whether the API server rejects the update of `live` to the desired object."""
    match desired["kind"]:
        case "ControllerRevision":
            return True
        case "Service":
            return is_headless(live.manifest) is not is_headless(desired)
        case "RoleBinding":
            return bool(live.manifest.get("roleRef") != desired["roleRef"])
    return False


def _same(live: Mapping[str, Any], desired: Manifest) -> bool:
    return covers(live, _content(desired))


def _content(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in manifest.items() if key not in {"apiVersion", "kind"}}


def _recreate(live: ChildObject, manifest: Manifest) -> ChildWrite:
    """Return the deletion of an object that a later pass creates from `manifest`."""
    own = {**manifest["metadata"], "uid": live.uid}
    return ChildWrite(Write.DELETE, live.kind, {**manifest, "metadata": own}, live.manifest)


def delete(live: ChildObject) -> ChildWrite:
    """Return the deletion of exactly this object."""
    identity = {"namespace": live.namespace, "name": live.name, "uid": live.uid}
    return ChildWrite(Write.DELETE, live.kind, {"metadata": identity})
