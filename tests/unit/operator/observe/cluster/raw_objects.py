"""Raw API objects with the fields that the operator reads."""

from typing import Any

Json = dict[str, Any]
CREATED = "2026-11-21T10:00:00Z"


def meta(name: str, uid: str, version: int = 1, **more: Any) -> Json:
    return {
        "name": name,
        "namespace": "team-a",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": CREATED,
        **more,
    }


def owned(kind: str, uid: str) -> list[Json]:
    return [{"apiVersion": "v1", "kind": kind, "name": "owner", "uid": uid, "controller": True}]


def labels(pool_uid: str) -> Json:
    return {"penstock.dev/pool-uid": pool_uid}


def pool(uid: str = "pool-1", version: int = 1, name: str = "chat", **spec: Any) -> Json:
    source = {"type": "Module", "module": {"factory": "a.b:c"}}
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "InferencePool",
        "metadata": meta(name, uid, version, generation=1),
        "spec": {"model": {"source": source}, **spec},
    }


def deployment(uid: str, pool_uid: str, version: int = 1, **status: Any) -> Json:
    metadata = meta(
        "chat-penstock", uid, version, labels=labels(pool_uid),
        ownerReferences=owned("InferencePool", pool_uid),
    )  # fmt: skip
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": 1},
        "status": status,
    }


def replica_set(uid: str, deployment_uid: str, pool_uid: str) -> Json:
    owner = owned("Deployment", deployment_uid)
    metadata = meta("chat-1", uid, labels=labels(pool_uid), ownerReferences=owner)
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}


def leader_worker_set(uid: str, pool_uid: str) -> Json:
    owner = owned("InferencePool", pool_uid)
    metadata = meta("chat-penstock", uid, labels=labels(pool_uid), ownerReferences=owner)
    return {"kind": "LeaderWorkerSet", "metadata": metadata, "spec": {"replicas": 1}}


def stateful_set(uid: str, owner_kind: str, owner_uid: str) -> Json:
    metadata = meta(f"chat-{uid}", uid, ownerReferences=owned(owner_kind, owner_uid))
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata}


def pod(
    uid: str, replica_set_uid: str | None, pool_uid: str, version: int = 1, **status: Any
) -> Json:
    owners = owned("ReplicaSet", replica_set_uid) if replica_set_uid else []
    metadata = meta(f"chat-{uid}", uid, version, labels=labels(pool_uid), ownerReferences=owners)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": status}


def namespace(name: str = "team-a", version: int = 1, **more: Any) -> Json:
    metadata = {"name": name, "uid": f"ns-{name}", "resourceVersion": str(version), **more}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
