"""What pools have come to, object by object, without what differs between any two runs: identities, versions, times."""

import json
import re
from collections.abc import Sequence
from typing import Any

from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle

LISTS = {
    "Pool": "/apis/penstock.dev/v1alpha1/namespaces/{}/inferencepools",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ControllerRevision": "/apis/apps/v1/namespaces/{}/controllerrevisions",
    "Service": "/api/v1/namespaces/{}/services",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}
OURS = "penstock.dev/pool-uid"
IDENTITY = {
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "namespace",
}
OF_THE_MOMENT = {
    "clusterIP", "clusterIPs", "lastTransitionTime", "observedGeneration", "time", "scaling", "lastDecision",
    "deployment.kubernetes.io/revision", "penstock.dev/applied",
}  # fmt: skip


def snapshot(api: Api, namespace: str) -> dict[str, Object]:
    """Return every pool and every child in a namespace by kind and name."""
    found: dict[str, Object] = {}
    uids = {
        one["metadata"]["uid"]: one["metadata"]["name"]
        for one in api.list(LISTS["Pool"].format(namespace))
    }
    for kind, path in LISTS.items():
        for one in api.list(path.format(namespace)):
            if kind == "Pool" or OURS in (one["metadata"].get("labels") or {}):
                name, held = _named(kind, one), _plain(one, uids, namespace)
                found[f"{kind} {name}"] = held if kind == "Pool" else _less_status(held)
    return found


def versions(api: Api, namespace: str) -> dict[str, str]:
    """Return the resourceVersion of every pool and child: equal twice where nobody wrote."""
    return {
        f"{kind} {one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for kind, path in LISTS.items()
        for one in api.list(path.format(namespace))
    }


def settled(pools: Sequence[PoolHandle]) -> bool | str:
    """Say whether every pool's status is about its newest spec."""
    for pool in pools:
        held = pool.get()
        if held.get("status", {}).get("observedGeneration") != held["metadata"]["generation"]:
            return pool.name
    return True


def differing(one: Any, other: Any, path: str = "") -> list[str]:
    """Return where two snapshots differ: the path, and both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        return [
            d for k in keys for d in differing(one.get(k), other.get(k), f"{path}.{k}".lstrip("."))
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [d for i, (a, b) in pairs for d in differing(a, b, f"{path}[{i}]")]
    return [] if one == other else [f"{path}: {one!r} != {other!r}"]


def _named(kind: str, one: Object) -> str:
    """A revision's name holds a digest over the pool's UID: it goes by its number."""
    if kind == "ControllerRevision":
        pool = one["metadata"]["labels"]["penstock.dev/pool"]
        return f"{pool} {one['revision']}"
    return str(one["metadata"]["name"])


def _plain(one: Object, uids: dict[str, str], namespace: str) -> Object:
    text = json.dumps(one)
    for uid, name in uids.items():
        text = text.replace(uid, f"uid-of-{name}")
    text = text.replace(namespace, "here")
    text = re.sub(r"\bpool-\d+-penstock-[0-9a-z]+-[0-9a-z]{5}\b", "a-pod", text)
    text = re.sub(r"\b(pool-\d+)-[0-9a-f]{8,}\b", r"\1-revision", text)
    held: Object = _without(json.loads(text))
    for key in held.get("data") or {}:
        if key == "limits.json":
            held["data"][key] = {
                k: v for k, v in json.loads(held["data"][key]).items() if k != "generation"
            }
    held.get("status", {}).get("batch", {}).pop("generation", None)
    return held


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without(v) for k, v in value.items() if k not in IDENTITY | OF_THE_MOMENT}
    return [_without(one) for one in value] if isinstance(value, list) else value


def _less_status(held: Object) -> Object:
    return {key: value for key, value in held.items() if key != "status"}
