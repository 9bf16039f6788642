"""Snapshots of pools and their children without identities, versions and times, which differ between runs."""

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
    objects: dict[str, Object] = {}
    uids = {
        pool["metadata"]["uid"]: pool["metadata"]["name"]
        for pool in api.list(LISTS["Pool"].format(namespace))
    }
    for kind, path in LISTS.items():
        for child in api.list(path.format(namespace)):
            if kind == "Pool" or OURS in (child["metadata"].get("labels") or {}):
                name, plain = _named(kind, child), _plain(child, uids, namespace)
                objects[f"{kind} {name}"] = plain if kind == "Pool" else _less_status(plain)
    return objects


def versions(api: Api, namespace: str) -> dict[str, str]:
    """Return the resourceVersion of every pool and child, which stays equal until something writes."""
    return {
        f"{kind} {child['metadata']['name']}": child["metadata"]["resourceVersion"]
        for kind, path in LISTS.items()
        for child in api.list(path.format(namespace))
    }


def settled(pools: Sequence[PoolHandle]) -> bool | str:
    """Return True if every pool's status describes its newest spec, else the name of a pool whose status does not."""
    for pool in pools:
        current = pool.get()
        if current.get("status", {}).get("observedGeneration") != current["metadata"]["generation"]:
            return pool.name
    return True


def differences(first: Any, second: Any, path: str = "") -> list[str]:
    """Return the differences of two snapshots, each with its path and both values."""
    if isinstance(first, dict) and isinstance(second, dict):
        return [
            difference
            for key in sorted(first.keys() | second.keys())
            for difference in differences(
                first.get(key), second.get(key), f"{path}.{key}".lstrip(".")
            )
        ]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        return [d for index, (a, b) in pairs for d in differences(a, b, f"{path}[{index}]")]
    return [] if first == second else [f"{path}: {first!r} != {second!r}"]


def _named(kind: str, child: Object) -> str:
    """Return an object's stable name; that of a revision contains a digest of the pool's UID, so its number is used."""
    if kind == "ControllerRevision":
        pool = child["metadata"]["labels"]["penstock.dev/pool"]
        return f"{pool} {child['revision']}"
    return str(child["metadata"]["name"])


def _plain(child: Object, uids: dict[str, str], namespace: str) -> Object:
    text = json.dumps(child)
    for uid, name in uids.items():
        text = text.replace(uid, f"uid-of-{name}")
    text = text.replace(namespace, "here")
    text = re.sub(r"\bpool-\d+-penstock-[0-9a-z]+-[0-9a-z]{5}\b", "a-pod", text)
    text = re.sub(r"\b(pool-\d+)-[0-9a-f]{8,}\b", r"\1-revision", text)
    plain: Object = _without(json.loads(text))
    for key in plain.get("data") or {}:
        if key == "limits.json":
            plain["data"][key] = {
                k: v for k, v in json.loads(plain["data"][key]).items() if k != "generation"
            }
    plain.get("status", {}).get("batch", {}).pop("generation", None)
    return plain


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without(v) for k, v in value.items() if k not in IDENTITY | OF_THE_MOMENT}
    return [_without(item) for item in value] if isinstance(value, list) else value


def _less_status(plain: Object) -> Object:
    return {key: value for key, value in plain.items() if key != "status"}
