"""What a pool's pods see of files, and where."""

from typing import Any

from penstock_api import names
from penstock_api.base import ApiModel
from penstock_api.types.template import PodTemplate
from penstock_api.types.volumes import Volume
from penstock_operator.decide.manifests.metadata import child_name
from penstock_operator.decide.manifests.model_source import model_mounts, model_volumes
from penstock_operator.observed import PoolObject

SETTINGS_VOLUME = "penstock-settings"
SCRATCH_VOLUME = "penstock-scratch"
TLS_VOLUME = "penstock-tls"
KEYS_VOLUME = "penstock-keys"
SCRATCH_FOLDER = "/tmp"  # noqa: S108 - the pod's own emptyDir: its root is read-only


def volumes(pool: PoolObject) -> list[dict[str, Any]]:
    """Return the pod's volumes: settings, scratch, the model's, the certificate and the API keys if it has them, the pool's own."""
    held: list[dict[str, Any]] = [
        {"name": SETTINGS_VOLUME, "configMap": {"name": child_name(pool)}},
        {"name": SCRATCH_VOLUME, "emptyDir": {}},
    ]
    held += model_volumes(pool.spec.model.source)
    if pool.spec.tls is not None:
        secret = {"secretName": pool.spec.tls.secret_ref.name}
        held.append({"name": TLS_VOLUME, "secret": secret})
    if pool.spec.api_keys is not None:
        keys = pool.spec.api_keys.secret_ref
        items = [{"key": keys.key, "path": names.API_KEYS_FILE}]
        held.append({"name": KEYS_VOLUME, "secret": {"secretName": keys.name, "items": items}})
    return held + [_volume(one) for one in (pool.spec.template or PodTemplate()).volumes or ()]


def _volume(volume: Volume) -> dict[str, Any]:
    given = _plain(volume)
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        given["emptyDir"]["sizeLimit"] = str(volume.empty_dir.size_limit)
    return given


def mounts(pool: PoolObject) -> list[dict[str, Any]]:
    """Return the runtime container's mounts, one a path."""
    held: list[dict[str, Any]] = [
        {"name": SETTINGS_VOLUME, "mountPath": names.SETTINGS_FOLDER, "readOnly": True},
        {"name": SCRATCH_VOLUME, "mountPath": SCRATCH_FOLDER},
    ]
    held += model_mounts(pool.spec.model.source)
    if pool.spec.tls is not None:
        held.append({"name": TLS_VOLUME, "mountPath": names.TLS_FOLDER, "readOnly": True})
    if pool.spec.api_keys is not None:
        held.append({"name": KEYS_VOLUME, "mountPath": names.API_KEYS_FOLDER, "readOnly": True})
    template = pool.spec.template or PodTemplate()
    own = (template.container and template.container.volume_mounts) or ()
    given = held + [_plain(one) for one in own]
    return list({one["mountPath"]: one for one in given}.values())


def _plain(part: ApiModel) -> dict[str, Any]:
    """Return JSON as the API server stores it: `readOnly: false` is stored as absent."""

    def kept(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: kept(one) for key, one in value.items() if one is not False}

    plain: dict[str, Any] = kept(part.model_dump(mode="json", by_alias=True, exclude_none=True))
    return plain
