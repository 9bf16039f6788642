"""Conversion of raw API objects to slim frozen records. Pure."""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from penstock_api import names
from penstock_api.types.fields import amount
from penstock_api.types.policy import PolicySpec, PolicyStatus
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import PoolStatus
from penstock_operator.decide.manifests.workload import WORKLOADS
from penstock_operator.observe.cluster.pod_problems import pod_problem
from penstock_operator.observed import ChildObject, PodObject, PolicyObject, PoolObject

Json = Mapping[str, Any]

WORKLOAD_STATUS = (
    "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
    "unavailableReplicas", "terminatingReplicas", "conditions",
)  # fmt: skip
"""The part of a workload's status that decisions read."""
SERVER_FIELDS = frozenset({"managedFields", "resourceVersion", "generation", "selfLink"})
"""Metadata that changes without an edit."""
VOLATILE_ANNOTATIONS = frozenset({"deployment.kubernetes.io/revision"})
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod with the label of a pool; ownership is checked by its controllers."""

    namespace: str
    controller_uid: str | None
    finished: bool
    """Succeeded or Failed: it uses no device and does not restart."""
    pod: PodObject
    devices: Mapping[str, int] = field(default_factory=dict)
    """Extended resources that its containers request, by name."""


@dataclass(frozen=True, slots=True)
class PodSetRecord:
    """A ReplicaSet or StatefulSet: the link between pods and their workload, or between workers and their leader."""

    uid: str
    controller_uid: str | None


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """Labels of a namespace, by which policies select, and whether it is terminating."""

    uid: str
    name: str
    labels: Mapping[str, str]
    deleting: bool


def pool_object(raw: Json) -> PoolObject:
    """Return the pool.

    Raises:
        ValidationError: its spec has a newer schema than this operator knows.
    """
    return PoolObject.of(
        raw["metadata"], PoolSpec.model_validate(raw["spec"]), _status(PoolStatus, raw)
    )


def variant_state(status: Json) -> Json:
    """Return the part of the status of a variant's pool that the pool with the variants reports."""
    conditions = [
        [condition.get(key) for key in ("type", "status", "reason")]
        for condition in status.get("conditions") or ()
    ]
    counts = {key: status.get(key) for key in ("replicas", "readyReplicas", "observedGeneration")}
    return {**counts, "conditions": conditions}


def policy_object(raw: Json) -> PolicyObject:
    """Return the policy.

    Raises:
        ValidationError: its spec has a newer schema than this operator knows.
    """
    meta = raw["metadata"]
    return PolicyObject(
        uid=meta["uid"],
        name=meta["name"],
        generation=meta.get("generation", 0),
        spec=PolicySpec.model_validate(raw["spec"]),
        status=_status(PolicyStatus, raw),
    )


def readable_part_of_pool(raw: Json, error: ValidationError) -> PoolObject | None:
    """Return a pool without the fields of its spec that caused `error`; None if the others are not a spec."""
    unread = {each["loc"][0] for each in error.errors() if each["loc"]}
    try:
        readable = {key: value for key, value in dict(raw["spec"]).items() if key not in unread}
        return pool_object({**raw, "spec": readable})
    except (TypeError, ValueError):
        return None


def readable_part(raw: Json, error: ValidationError) -> tuple[PolicyObject | None, str]:
    """Return a policy without the fields that caused `error`, and these fields.

    None if one of them is a selector: which pools the policy selects is then unknown.
    """
    paths = {each["loc"][: 2 if each["loc"][:1] == ("bounds",) else 1] for each in error.errors()}
    dropped = ", ".join(sorted(map(field_path, paths)))
    if not all(paths) or paths & {("namespaceSelector",), ("poolSelector",)}:
        return None, dropped
    spec = dict(raw["spec"])
    for path in paths:
        if len(path) > 1:
            spec["bounds"] = {k: v for k, v in spec["bounds"].items() if k != path[1]}
        else:
            spec.pop(str(path[0]), None)
    return policy_object({**raw, "spec": spec}), dropped


def field_path(path: Sequence[int | str]) -> str:
    """Return the path of a field of a spec, as in `spec.bounds.template`."""
    return ".".join(map(str, ("spec", *path)))


def namespace_record(raw: Json) -> NamespaceRecord:
    """Return the record of a namespace."""
    meta = raw["metadata"]
    labels = meta.get("labels") or {}
    return NamespaceRecord(meta["uid"], meta["name"], labels, "deletionTimestamp" in meta)


def interned(value: Any) -> Any:
    """Return JSON with interned strings: the children of thousands of pools share most of theirs."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, dict):
        return {sys.intern(key): interned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [interned(item) for item in value]
    return value


def child_object(kind: str, raw: Json) -> ChildObject:
    """Return the child with its manifest, without the fields that only the API server writes."""
    meta = raw["metadata"]
    slim = {key: value for key, value in raw.items() if key != "status"}
    slim["metadata"] = {key: value for key, value in meta.items() if key != "managedFields"}
    slim = interned(slim)
    status = raw.get("status") or {} if kind in WORKLOADS else {}
    return ChildObject(
        kind=kind,
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        controller_uid=controller_uid(meta),
        owner_uids=owner_uids(meta),
        deleting="deletionTimestamp" in meta,
        manifest=slim,
        status={key: status[key] for key in WORKLOAD_STATUS if key in status},
    )


def pod_set_record(raw: Json) -> PodSetRecord:
    """Return the UID of a ReplicaSet or StatefulSet and of its controller."""
    return PodSetRecord(raw["metadata"]["uid"], controller_uid(raw["metadata"]))


def pod_record(raw: Json) -> PodRecord:
    """Return the pod as decisions read it, with its problem."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    scheduled, ready = conditions.get("PodScheduled", {}), conditions.get("Ready", {})
    containers = status.get("containerStatuses") or ()
    pod = PodObject(
        uid=meta["uid"],
        name=meta["name"],
        ip=status.get("podIP"),
        created=seconds(meta["creationTimestamp"]),
        scheduled=scheduled.get("status") == "True" or bool(spec.get("nodeName")),
        unschedulable_since=_since(scheduled, "False"),
        ready=ready.get("status") == "True",
        ready_since=_since(ready, "True"),
        terminating="deletionTimestamp" in meta,
        host_network=bool(spec.get("hostNetwork")),
        revision=(meta.get("labels") or {}).get(names.LABEL_REVISION),
        problem=pod_problem(raw),
        restarts=sum(container.get("restartCount", 0) for container in containers),
        image=next((each["imageID"] for each in containers if each.get("imageID")), None),
        scheduled_since=_since(scheduled, "True"),
        tls_name=_tls_name(meta),
        node=spec.get("nodeName"),
        node_selector=interned(spec.get("nodeSelector") or {}),
    )
    finished = status.get("phase") in ("Succeeded", "Failed")
    return PodRecord(meta["namespace"], controller_uid(meta), finished, pod, _devices(spec))


def _devices(spec: Json) -> Mapping[str, int]:
    """Return the extended resources of a pod's containers, by name; others have no prefix in their names."""
    counts = Counter[str]()
    for container in spec.get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        counts.update({name: int(amount(count)) for name, count in limits.items() if "/" in name})
    devices: Mapping[str, int] = interned(dict(counts))
    return devices


def _tls_name(meta: Json) -> str | None:
    """Return the DNS name of the pod's Service if its template enables TLS."""
    if (meta.get("annotations") or {}).get(names.ANNOTATION_SCHEME) != "https":
        return None
    pool = (meta.get("labels") or {}).get(names.LABEL_POOL)
    return names.service_host(str(pool), meta["namespace"])


def controller_uid(meta: Json) -> str | None:
    """Return the UID of the controlling owner reference, or None."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return None


def owner_uids(meta: Json) -> frozenset[str]:
    """Return the UIDs of all owner references."""
    return frozenset(str(owner["uid"]) for owner in meta.get("ownerReferences") or ())


def child_digest(child: ChildObject) -> str:
    """Return a digest that changes with an edit of the child, and with its replica counts and conditions."""
    meta = {k: v for k, v in child.manifest["metadata"].items() if k not in SERVER_FIELDS}
    annotations = meta.get("annotations") or {}
    meta["annotations"] = {k: v for k, v in annotations.items() if k not in VOLATILE_ANNOTATIONS}
    conditions = [
        tuple(condition.get(key) for key in ("type", "status", "reason", "message"))
        for condition in child.status.get("conditions") or ()
    ]
    return digest(
        {**child.manifest, "metadata": meta, "status": {**child.status, "conditions": conditions}}
    )


def digest(value: object) -> str:
    """Return a short digest of a JSON value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def seconds(text: str) -> float:
    """Return Unix seconds of an RFC 3339 time."""
    return datetime.fromisoformat(text).timestamp()


def _since(condition: Json, status: str) -> float | None:
    if condition.get("status") != status or not condition.get("lastTransitionTime"):
        return None
    return seconds(condition["lastTransitionTime"])


def _status(model: type[Model], raw: Json) -> Model:
    """Return the status, or an empty one if it cannot be parsed: it will be written again."""
    try:
        return model.model_validate(raw.get("status") or {})
    except ValidationError:
        return model()


def created_without_apply(meta: Json) -> bool:
    """Return whether a plain create of the operator, not an apply, still owns fields."""
    return any(
        entry.get("manager") == names.FIELD_MANAGER
        and entry.get("operation") == "Update"
        and not entry.get("subresource")
        for entry in meta.get("managedFields") or ()
    )
