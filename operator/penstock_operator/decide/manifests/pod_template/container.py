"""The runtime container: image, probes, resources."""

from collections.abc import Mapping

from penstock_api import names
from penstock_api.pod_contract import MAX_LOAD_SECONDS
from penstock_api.types.pod_template.container import ContainerTemplate, Resources
from penstock_api.types.pod_template.template import PodTemplate
from penstock_api.types.runtime import RuntimeSpec
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.pod_template.environment import (
    ReplicaDevices,
    accelerator,
    environment,
)
from penstock_operator.decide.manifests.pod_template.volumes import mounts
from penstock_operator.observed import PoolObject

CONTAINER_NAME = "runtime"
LISTEN_SECONDS = 2
"""Time until a started container listens: an earlier probe fails, which is a Warning Event."""
LOAD_WAIT_SECONDS = 600
"""Time for which one startup probe waits for the model."""


def image(pool: PoolObject, config: DecideConfig) -> str:
    """Return the runtime image of a template rendered now."""
    return (pool.spec.runtime and pool.spec.runtime.image) or config.default_runtime_image


def container(pool: PoolObject, config: DecideConfig, drain: Mapping[str, str]) -> Manifest:
    """Return the one container of a pool's pods."""
    own = (pool.spec.template or PodTemplate()).container or ContainerTemplate()
    pull_policy = (pool.spec.runtime or RuntimeSpec()).image_pull_policy or config.image_pull_policy
    manifest: Manifest = {
        "name": CONTAINER_NAME,
        "image": image(pool, config),
        "env": environment(pool, drain, own),
        "ports": [
            _port(names.CLIENT_PORT_NAME, names.CLIENT_PORT),
            _port(names.CLUSTER_PORT_NAME, names.CLUSTER_PORT),
        ],
        **_probes(secure=pool.spec.tls is not None),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": names.TERMINATION_LOG,
        # a crash that wrote no reason still reports its last lines
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(pool),
    }
    if pull_policy is not None:
        manifest["imagePullPolicy"] = pull_policy.value
    resources = _resources(own.resources or Resources(), accelerator(pool))
    return manifest | ({"resources": resources} if resources else {})


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _probe(http_get: Manifest, period: int, failures: int, timeout: int) -> Manifest:
    return {
        "httpGet": http_get,
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": timeout,
    }


def _probes(*, secure: bool) -> Manifest:
    """Return the probes: startup waits until the model is loaded, liveness follows the engine's heartbeat.

    The runtime answers the startup probe when its model is warm, so a healthy start has no failed probe, which would be a
    Warning Event, and readiness follows at once. Over TLS the kubelet does not verify the certificate.
    """
    scheme = {"scheme": "HTTPS"} if secure else {}
    healthz = {"path": names.PATH_HEALTHZ, "port": names.CLUSTER_PORT_NAME, **scheme}
    readyz = {"path": names.PATH_READYZ, "port": names.CLUSTER_PORT_NAME, **scheme}
    loaded = readyz | {
        "path": f"{names.PATH_READYZ}?{names.QUERY_WAIT_SECONDS}={LOAD_WAIT_SECONDS}"
    }
    startup = _probe(loaded, period=1, failures=MAX_LOAD_SECONDS, timeout=LOAD_WAIT_SECONDS + 10)
    return {
        "startupProbe": startup | {"initialDelaySeconds": LISTEN_SECONDS},
        "livenessProbe": _probe(healthz, period=10, failures=3, timeout=5),
        "readinessProbe": _probe(readyz, period=2, failures=2, timeout=2),
    }


def _resources(own: Resources, device: ReplicaDevices) -> Manifest:
    """Return CPU and memory of the pool's container template, and the devices of `spec.accelerator`."""
    requests, limits = _quantities(own.requests), _quantities(own.limits)
    for given in (requests, limits):
        given.pop(device.resource_name, None)
    if device.count:
        limits[device.resource_name] = str(device.count)
    claims = [claim.model_dump(mode="json", exclude_none=True) for claim in own.claims or ()]
    return {
        key: value
        for key, value in (("requests", requests), ("limits", limits), ("claims", claims))
        if value
    }


def _quantities(given: dict[str, int | str] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (given or {}).items()}
