"""The runtime container: image, environment, probes, resources."""

import json
from typing import Any

from penstock_api import names
from penstock_api.container import ContainerTemplate, Resources
from penstock_api.model import ModelSpec
from penstock_api.pool import Accelerator, RuntimeSpec
from penstock_api.template import PodTemplate
from penstock_operator.decide.children.metadata import Manifest
from penstock_operator.decide.children.volumes import SCRATCH_FOLDER, mounts
from penstock_operator.decide.config import DecideConfig
from penstock_operator.observed import PoolObject

CONTAINER_NAME = "runtime"
BUILT_IN_ACCELERATOR = Accelerator(resource_name="nvidia.com/gpu", count=1)
"""A pool that says nothing computes on a GPU; the CPU is said aloud, `count: 0`."""
LOAD_PATIENCE_SECONDS = 3600
"""How long a model may load before the kubelet restarts the container."""


def accelerator(pool: PoolObject) -> Accelerator:
    """Return what one replica computes on."""
    return pool.spec.accelerator or BUILT_IN_ACCELERATOR


def image(pool: PoolObject, config: DecideConfig) -> str:
    """Return the runtime image of a template rendered now."""
    return (pool.spec.runtime and pool.spec.runtime.image) or config.default_runtime_image


def container(pool: PoolObject, config: DecideConfig, drain_deadline_seconds: int) -> Manifest:
    """Return the one container of a pool's pods."""
    own = (pool.spec.template or PodTemplate()).container or ContainerTemplate()
    pull_policy = (pool.spec.runtime or RuntimeSpec()).image_pull_policy or config.image_pull_policy
    held: Manifest = {
        "name": CONTAINER_NAME,
        "image": image(pool, config),
        "env": _environment(pool, drain_deadline_seconds, own),
        "ports": [
            _port(names.CLIENT_PORT_NAME, names.CLIENT_PORT),
            _port(names.CLUSTER_PORT_NAME, names.CLUSTER_PORT),
        ],
        **_probes(),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": names.TERMINATION_LOG,
        # a crash that wrote no reason still says its last lines
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(pool),
    }
    if pull_policy is not None:
        held["imagePullPolicy"] = pull_policy.value
    resources = _resources(own.resources or Resources(), accelerator(pool))
    return held | ({"resources": resources} if resources else {})


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _probe(path: str, period: int, failures: int, timeout: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": names.CLUSTER_PORT_NAME},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": timeout,
    }


def _probes() -> Manifest:
    """Startup waits as long as a large model takes; then liveness is the engine's step heartbeat."""
    period = 2
    return {
        "startupProbe": _probe(names.PATH_HEALTHZ, period, LOAD_PATIENCE_SECONDS // period, 2),
        "livenessProbe": _probe(names.PATH_HEALTHZ, period=10, failures=3, timeout=5),
        "readinessProbe": _probe(names.PATH_READYZ, period=2, failures=2, timeout=2),
    }


def _environment(pool: PoolObject, drain_seconds: int, own: ContainerTemplate) -> list[Manifest]:
    """Return the environment, one entry a name; the pool's own wins where names meet."""
    device = accelerator(pool)
    cores: Manifest = {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}}
    # Beside a device the CPU only feeds it, and contending torch threads cost far more than they give.
    threads: Manifest = {"value": "1"} if device.count else {"valueFrom": cores}
    given: list[Manifest] = [
        {"name": names.ENV_POOL, "value": pool.name},
        _from_pod(names.ENV_NAMESPACE, "metadata.namespace"),
        _from_pod(names.ENV_POD_NAME, "metadata.name"),
        _from_pod(names.ENV_POD_UID, "metadata.uid"),
        {"name": names.ENV_MODEL, "value": model_json(pool)},
        {"name": names.ENV_DRAIN_DEADLINE_SECONDS, "value": str(drain_seconds)},
        {"name": "HOME", "value": SCRATCH_FOLDER},
        {"name": "OMP_NUM_THREADS", **threads},
    ]
    dumped = [
        one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in own.env or ()
    ]
    return list({one["name"]: one for one in given + dumped}.values())


def _from_pod(name: str, path: str) -> Manifest:
    field = {"apiVersion": "v1", "fieldPath": path}
    return {"name": name, "valueFrom": {"fieldRef": field}}


def model_json(pool: PoolObject) -> str:
    """Return `ModelSpec` in JSON as the runtime reads it: named, the program's path absolute."""
    model: ModelSpec = pool.spec.model
    given: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    given["name"] = model.name or pool.name
    claim = given["source"].get("persistentVolumeClaim")
    if claim is not None:
        claim["path"] = f"{names.MODEL_FOLDER}/{claim['path']}"
    return json.dumps(given, sort_keys=True)


def _resources(own: Resources, device: Accelerator) -> Manifest:
    """Return CPU and memory as the pool says, and the accelerator as `spec.accelerator` says."""
    requests, limits = _quantities(own.requests), _quantities(own.limits)
    for given in (requests, limits):
        given.pop(device.resource_name, None)
    if device.count:
        limits[device.resource_name] = str(device.count)
    return {k: v for k, v in (("requests", requests), ("limits", limits)) if v}


def _quantities(given: dict[str, int | str] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (given or {}).items()}
