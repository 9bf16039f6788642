"""Volumes and mounts of a pool's pods."""

from typing import Any

from penstock_api import names
from penstock_api.base import ApiModel
from penstock_api.types.pod_template.template import PodTemplate
from penstock_api.types.pod_template.volumes import Volume
from penstock_operator.decide.manifests.metadata import child_name
from penstock_operator.decide.manifests.pod_template.model_source import model_mounts, model_volumes
from penstock_operator.observed import PoolObject

SETTINGS_VOLUME = "penstock-settings"
SCRATCH_VOLUME = "penstock-scratch"
TLS_VOLUME = "penstock-tls"
KEYS_VOLUME = "penstock-keys"
SHARED_MEMORY_VOLUME = "penstock-shm"
SHARED_MEMORY_FOLDER = "/dev/shm"  # noqa: S108 - where NCCL and gloo look for it
SCRATCH_FOLDER = "/tmp"  # noqa: S108 - the pod's own emptyDir: its root is read-only


def volumes(pool: PoolObject) -> list[dict[str, Any]]:
    """Return the pod's volumes: settings, scratch, model, certificate, API keys and ranks' memory if set, and the pool's own."""
    entries: list[dict[str, Any]] = [
        {"name": SETTINGS_VOLUME, "configMap": {"name": child_name(pool)}},
        {"name": SCRATCH_VOLUME, "emptyDir": {}},
    ]
    entries += model_volumes(pool.spec.model.source)
    if pool.spec.tls is not None:
        secret = {"secretName": pool.spec.tls.secret_ref.name}
        entries.append({"name": TLS_VOLUME, "secret": secret})
    if pool.spec.api_keys is not None:
        keys = pool.spec.api_keys.secret_ref
        items = [{"key": keys.key, "path": names.API_KEYS_FILE}]
        entries.append({"name": KEYS_VOLUME, "secret": {"secretName": keys.name, "items": items}})
    if _has_ranks(pool):
        entries.append({"name": SHARED_MEMORY_VOLUME, "emptyDir": {"medium": "Memory"}})
    own = (pool.spec.template or PodTemplate()).volumes or ()
    return entries + [_volume(volume) for volume in own]


def _has_ranks(pool: PoolObject) -> bool:
    """Return whether the pool's pods have several ranks.

    NCCL exchanges data between the cards of a node through /dev/shm, of which container runtimes give 64 MiB; it needs up to
    1 GiB. The memory counts towards the container's limit.
    """
    parallelism = pool.spec.parallelism
    return parallelism is not None and parallelism.ranks > 1


def _volume(volume: Volume) -> dict[str, Any]:
    given = _plain(volume)
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        given["emptyDir"]["sizeLimit"] = str(volume.empty_dir.size_limit)
    return given


def mounts(pool: PoolObject) -> list[dict[str, Any]]:
    """Return the runtime container's mounts, one per path."""
    entries: list[dict[str, Any]] = [
        {"name": SETTINGS_VOLUME, "mountPath": names.SETTINGS_FOLDER, "readOnly": True},
        {"name": SCRATCH_VOLUME, "mountPath": SCRATCH_FOLDER},
    ]
    entries += model_mounts(pool.spec.model.source)
    if pool.spec.tls is not None:
        entries.append({"name": TLS_VOLUME, "mountPath": names.TLS_FOLDER, "readOnly": True})
    if pool.spec.api_keys is not None:
        entries.append({"name": KEYS_VOLUME, "mountPath": names.API_KEYS_FOLDER, "readOnly": True})
    if _has_ranks(pool):
        entries.append({"name": SHARED_MEMORY_VOLUME, "mountPath": SHARED_MEMORY_FOLDER})
    template = pool.spec.template or PodTemplate()
    own = (template.container and template.container.volume_mounts) or ()
    mounted = entries + [_plain(mount) for mount in own]
    return list({mount["mountPath"]: mount for mount in mounted}.values())


def _plain(part: ApiModel) -> dict[str, Any]:
    """Return JSON as the API server stores it: `readOnly: false` is stored as absent."""

    def without_false(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: without_false(item) for key, item in value.items() if item is not False}

    plain: dict[str, Any] = without_false(
        part.model_dump(mode="json", by_alias=True, exclude_none=True)
    )
    return plain
