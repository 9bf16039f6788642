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
    """Return the label that Deployment, PodDisruptionBudget and NetworkPolicy select on; it never changes."""
    return {names.LABEL_POOL_UID: pool.uid}


def serving_selector(pool: PoolObject) -> dict[str, str]:
    """Return the labels of the pods that serve, one of each replica; they never change."""
    leaders = {names.LABEL_WORKER_INDEX: "0"} if pool.spec.pods_per_replica > 1 else {}
    return {**selector(pool), **leaders}


def labels(pool: PoolObject) -> dict[str, str]:
    """Return the labels of every child and pod."""
    return {
        names.LABEL_APP_NAME: "inference-pool",
        names.LABEL_APP_INSTANCE: pool.name,
        names.LABEL_APP_COMPONENT: "runtime",
        names.LABEL_APP_PART_OF: "penstock",
        names.LABEL_APP_MANAGED_BY: "penstock",
        names.LABEL_POOL: pool.name,
        **_variant_labels(pool),
        **selector(pool),
    }


def _variant_labels(pool: PoolObject) -> dict[str, str]:
    """Return the labels of the children of a variant's pool, by which the parent's Service selects the pods."""
    parent = pool.variant_of
    if parent is None:
        return {}
    return {
        names.LABEL_VARIANT: variant_name(pool.name, parent.name),
        names.LABEL_VARIANT_OF: parent.name,
        **variants_selector(parent.uid),
    }


def variant_name(pool: str, parent: str) -> str:
    """Return the variant of a pool of this name."""
    return pool.removeprefix(names.variant_pool(parent, ""))


def variants_selector(parent_uid: str) -> dict[str, str]:
    """Return the label that the Service of a pool with variants selects on; it never changes."""
    return {names.LABEL_VARIANT_OF_UID: parent_uid}


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
