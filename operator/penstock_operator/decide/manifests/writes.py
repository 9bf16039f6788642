"""Present or absent, ours or not: what has to be written for one child.

absent                    -> create
ours, and as wanted       -> nothing
ours, and different       -> apply, to this very object (its UID is a precondition); a ControllerRevision
                             is deleted and made anew, since the API server compares its data byte for byte,
                             order of keys and escapes included, and refuses any write that went through JSON
ours, and being deleted   -> nothing: it is created when it is gone
somebody else's           -> nothing, ever: a name conflict
"""

from collections.abc import Mapping
from typing import Any

from penstock_api import names
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.manifests.diff import covers, digest
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.observed import ChildObject, PoolObject


def with_hash(manifest: Manifest) -> Manifest:
    """Return `manifest` with its own hash on it, so that a field no longer wanted is noticed.

    Replicas are left out of the hash: they are compared by value, and change without a new builder.
    """
    spec = manifest.get("spec", {})
    steady = {k: v for k, v in spec.items() if k != "replicas"}
    own = manifest["metadata"]
    mark = {names.ANNOTATION_APPLIED: digest({**manifest, "spec": steady})}
    return {
        **manifest,
        "metadata": {**own, "annotations": {**own.get("annotations", {}), **mark}},
    }


def foreign(held: ChildObject | None, pool: PoolObject) -> bool:
    """Tell whether the name is taken by an object that this pool does not control."""
    return held is not None and held.controller_uid != pool.uid


def child_write(pool: PoolObject, held: ChildObject | None, wanted: Manifest) -> ChildWrite | None:
    """Return the write that makes `held` what is wanted, or None."""
    manifest = with_hash(wanted)
    if held is None:
        return ChildWrite(Write.CREATE, manifest["kind"], manifest)
    if held.deleting or foreign(held, pool) or _same(held.manifest, manifest):
        return None
    if manifest["kind"] == "ControllerRevision":
        return delete(held)
    precondition = {"uid": held.uid}
    if manifest["kind"] == "Deployment":
        # Replicas were computed from this version: somebody else's write in between must be seen first.
        precondition["resourceVersion"] = held.resource_version
    own = {**manifest["metadata"], **precondition}
    return ChildWrite(Write.APPLY, manifest["kind"], {**manifest, "metadata": own})


def _same(live: Mapping[str, Any], wanted: Manifest) -> bool:
    said = {key: value for key, value in wanted.items() if key not in {"apiVersion", "kind"}}
    return covers(live, said)


def delete(held: ChildObject) -> ChildWrite:
    """Return the deletion of exactly this object."""
    identity = {"namespace": held.namespace, "name": held.name, "uid": held.uid}
    return ChildWrite(Write.DELETE, held.kind, {"metadata": identity})
