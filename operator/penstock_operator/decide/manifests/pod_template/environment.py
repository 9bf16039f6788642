"""Environment variables of the runtime: its identity, its model and its device."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock_api import names
from penstock_api.types.model import ModelSpec
from penstock_api.types.pod_template.container import ContainerTemplate
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.pod_template.model_source import model_environment
from penstock_operator.decide.manifests.pod_template.runtime_settings import runtime_settings
from penstock_operator.decide.manifests.pod_template.volumes import SCRATCH_FOLDER
from penstock_operator.observed import PoolObject


@dataclass(frozen=True, slots=True)
class ReplicaDevices:
    """The devices of one replica, by default one GPU. Count 0 is the CPU."""

    resource_name: str = "nvidia.com/gpu"
    count: int = 1


def accelerator(pool: PoolObject) -> ReplicaDevices:
    """Return the devices of one replica."""
    given = pool.spec.accelerator
    return (
        ReplicaDevices() if given is None else ReplicaDevices(**given.model_dump(exclude_none=True))
    )


def environment(
    pool: PoolObject, drain: Mapping[str, str], own: ContainerTemplate
) -> list[Manifest]:
    """Return the environment with the variables of `drain`, one entry per name; the pool's own entries take precedence."""
    device = accelerator(pool)
    cores: Manifest = {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}}
    # With a device the CPU only feeds it, and contention between torch threads costs more than they gain.
    has_device = device.count or (own.resources and own.resources.claims)
    threads: Manifest = {"value": "1"} if has_device else {"valueFrom": cores}
    entries: list[Manifest] = [
        {"name": names.ENV_POOL, "value": pool.name},
        _from_pod(names.ENV_NAMESPACE, "metadata.namespace"),
        _from_pod(names.ENV_POD_NAME, "metadata.name"),
        _from_pod(names.ENV_POD_UID, "metadata.uid"),
        {"name": names.ENV_MODEL, "value": model_json(pool)},
        *({"name": name, "value": value} for name, value in drain.items()),
        {"name": "HOME", "value": SCRATCH_FOLDER},
        {"name": "OMP_NUM_THREADS", **threads},
    ]
    entries += model_environment(pool.spec.model.source)
    if pool.spec.tls is not None:
        entries.append({"name": names.ENV_TLS_FOLDER, "value": names.TLS_FOLDER})
    if pool.spec.api_keys is not None:
        file = f"{names.API_KEYS_FOLDER}/{names.API_KEYS_FILE}"
        entries.append({"name": names.ENV_API_KEYS_FILE, "value": file})
    entries += runtime_settings(pool.spec)
    dumped = [
        entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in own.env or ()
    ]
    return list({entry["name"]: entry for entry in entries + dumped}.values())


def _from_pod(name: str, path: str) -> Manifest:
    field = {"apiVersion": "v1", "fieldPath": path}
    return {"name": name, "valueFrom": {"fieldRef": field}}


def model_json(pool: PoolObject) -> str:
    """Return `ModelSpec` with a name, in JSON as the runtime reads it."""
    model: ModelSpec = pool.spec.model
    given: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    given["name"] = model.name or pool.name
    return json.dumps(given, sort_keys=True)
