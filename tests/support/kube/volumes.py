"""Volumes of tests: a folder on the project's node behind a claim."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kube.api import Api, Object


@contextmanager
def node_volume(
    api: Api, folder: Path, namespace: str, claim: str, *, mode: str, size: str = "1Gi"
) -> Iterator[Object]:
    """Reserve a folder of the node for the claim of this name, and yield that claim's manifest; the folder stays."""
    name = f"{claim}-{namespace}"
    head = {"namespace": namespace, "name": claim}
    shape = {"accessModes": [mode], "storageClassName": ""}
    api.create({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size}, "claimRef": head, "hostPath": {"path": str(folder)},
            "persistentVolumeReclaimPolicy": "Retain", **shape,
        },
    })  # fmt: skip
    try:
        yield {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": head,
            "spec": {**shape, "resources": {"requests": {"storage": size}}},
        }  # fmt: skip
    finally:
        api.delete(f"/api/v1/persistentvolumes/{name}")
