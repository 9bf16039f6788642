"""Metadata of every child object: names, labels and owner reference."""

from collections.abc import Mapping
from typing import Any

from penstock_api import names
from penstock_operator.observed import PoolObject

Manifest = dict[str, Any]


def service_name(pool: PoolObject) -> str:
    """Return the name of the pool's Service, which clients use."""
    return pool.name


def child_name(pool: PoolObject) -> str:
    """Return the name of every other child."""
    return pool.name + names.CHILD_SUFFIX


def checkpoint_name(pool: PoolObject) -> str:
    """Return the name of the ConfigMap with the checkpoint of the law's state."""
    return pool.name + names.MEMORY_SUFFIX


def selector(pool: PoolObject) -> dict[str, str]:
    """Return the label that Deployment, Service and PodDisruptionBudget select on; it never changes."""
    return {names.LABEL_POOL_UID: pool.uid}


def labels(pool: PoolObject) -> dict[str, str]:
    """Return the labels of every child and pod."""
    return {
        names.LABEL_APP_NAME: "inference-pool",
        names.LABEL_APP_INSTANCE: pool.name,
        names.LABEL_APP_COMPONENT: "runtime",
        names.LABEL_APP_PART_OF: "penstock",
        names.LABEL_APP_MANAGED_BY: "penstock",
        names.LABEL_POOL: pool.name,
        **selector(pool),
    }


def metadata(pool: PoolObject, name: str, annotations: Mapping[str, str] | None = None) -> Manifest:
    """Return the metadata of a child that the pool controls."""
    manifest: Manifest = {
        "name": name,
        "namespace": pool.namespace,
        "labels": labels(pool),
        "ownerReferences": [owner(pool)],
    }
    return manifest | ({"annotations": dict(annotations)} if annotations else {})


def owner(pool: PoolObject) -> Manifest:
    """Return the controlling owner reference.

    It does not block the owner's deletion, so that the operator needs no permission on the `finalizers` subresource
    (admission plugin OwnerReferencesPermissionEnforcement).
    """
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.POOL_KIND,
        "name": pool.name,
        "uid": pool.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
