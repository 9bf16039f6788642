"""The objects of a namespace's gateway: its pods, their ServiceAccount and permissions, budget and NetworkPolicy.

All pools that are routed own them, none controls them: Kubernetes deletes them with the last of these pools.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock_api import names
from penstock_api.envoy import SOCKET_FOLDER, envoy_arguments
from penstock_api.types.pod_template.security import IdSource
from penstock_operator.decide.config import GatewayConfig, PoolPeers
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.network_policy import clients
from penstock_operator.observed import RoutedPool

GATEWAY_KINDS = ("ServiceAccount", "RoleBinding", "Deployment", "PodDisruptionBudget")
"""Kinds of the gateway's objects; a NetworkPolicy comes where pools have one."""
DRAIN_SECONDS = 600
"""Time that requests in flight have to end when a gateway's pod is deleted."""
GRACE_SECONDS = DRAIN_SECONDS + 30
START_SECONDS = 10
"""Time in which the controller starts, before its first liveness probe: one before would be an Unhealthy event."""
CERTIFICATE_KEYS = ("tls.crt", "tls.key", "ca.crt")
USER_ID = 65532
MAX_OWNERS = 64
"""Owner references of the gateway's objects: some owners suffice, and the object stays small."""


def gateway_manifests(
    namespace: str, pools: Sequence[RoutedPool], config: GatewayConfig, peers: PoolPeers | None
) -> Iterator[Manifest]:
    """Yield the desired objects; what a pod needs at startup comes before the Deployment."""
    owners = [_owner(pool) for pool in pools[:MAX_OWNERS]]

    def metadata() -> dict[str, Any]:
        return {
            "name": names.GATEWAY_NAME,
            "namespace": namespace,
            "labels": labels(),
            "ownerReferences": owners,
        }

    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata()}
    yield _role_binding(namespace, metadata(), config)
    yield _deployment(namespace, metadata(), config, _certificates(pools))
    yield _disruption_budget(metadata())
    if peers is not None:
        yield _network_policy(metadata(), peers)


def labels() -> dict[str, str]:
    """Return the labels of the gateway's objects and pods."""
    return {
        names.LABEL_APP_NAME: names.GATEWAY_NAME,
        names.LABEL_APP_COMPONENT: "gateway",
        names.LABEL_APP_PART_OF: "penstock",
        names.LABEL_APP_MANAGED_BY: "penstock",
        names.LABEL_POOL_UID: names.GATEWAY_UID,
        **selector(),
    }


def selector() -> dict[str, str]:
    """Return the label that Services, Deployment and budget select on; it never changes."""
    return {names.LABEL_GATEWAY: names.GATEWAY_NAME}


def _owner(pool: RoutedPool) -> Mapping[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.POOL_KIND,
        "name": pool.name,
        "uid": pool.uid,
        "blockOwnerDeletion": False,
    }


def _role_binding(namespace: str, metadata: Manifest, config: GatewayConfig) -> Manifest:
    """Return the permission to watch the Services and pods of this namespace alone."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": config.cluster_role,
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": names.GATEWAY_NAME, "namespace": namespace}
        ],
    }


def _certificates(pools: Sequence[RoutedPool]) -> list[Manifest]:
    """Return the sources of the volume of certificates: the Secret of each pool with TLS, in a folder of its name.

    A Secret that does not exist yet, or is gone, delays no pod of the gateway: only its pool needs it. A pool with TLS that
    comes or goes rolls the gateway; a renewed certificate does not.
    """
    secured = sorted((pool.name, pool.certificate) for pool in pools if pool.certificate)
    return [
        {
            "secret": {
                "name": secret,
                "optional": True,
                "items": [{"key": key, "path": f"{name}/{key}"} for key in CERTIFICATE_KEYS],
            }
        }
        for name, secret in secured
    ]


def _deployment(
    namespace: str, metadata: Manifest, config: GatewayConfig, certificates: list[Manifest]
) -> Manifest:
    """Return the Deployment: Envoy is a sidecar, which outlives its controller, and the controller drains it at SIGTERM.

    Ready is what Envoy says alone: a controller that restarts takes no gateway out of service.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": config.replicas,
            "selector": {"matchLabels": selector()},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "revisionHistoryLimit": 2,
            "template": {
                "metadata": {"labels": labels()},
                "spec": _pod(namespace, config, certificates),
            },
        },
    }


def _pod(namespace: str, config: GatewayConfig, certificates: list[Manifest]) -> Manifest:
    controller = _container("controller", config, [])
    volumes: list[Manifest] = [
        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}
    ]
    if certificates:
        volumes.append({"name": "tls", "projected": {"sources": certificates}})
        mount = {"name": "tls", "mountPath": names.TLS_FOLDER, "readOnly": True}
        controller["volumeMounts"] = [*controller["volumeMounts"], mount]
    controller["env"] = [
        {"name": "PENSTOCK_NAMESPACE", "value": namespace},
        {"name": "PENSTOCK_GATEWAY", "value": names.GATEWAY_NAME},
        {"name": "PENSTOCK_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "PENSTOCK_DRAIN_SECONDS", "value": str(DRAIN_SECONDS)},
        {"name": "PENSTOCK_HEAP_BYTES", "value": str(config.heap_bytes)},
    ]
    controller["ports"] = [{"name": "status", "containerPort": names.GATEWAY_STATUS_PORT}]
    controller["livenessProbe"] = {
        **_probe("/healthz", names.GATEWAY_STATUS_PORT),
        "initialDelaySeconds": START_SECONDS,
    }
    bootstrap = {**_container("bootstrap", config, ["bootstrap"]), "env": controller["env"]}
    envoy = {
        **_container("envoy", config, [*envoy_arguments(SOCKET_FOLDER, DRAIN_SECONDS)]),
        "image": config.envoy_image,
        "command": ["envoy"],
        "restartPolicy": "Always",
        "readinessProbe": _probe("/readyz", names.GATEWAY_READINESS_PORT),
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": str(config.heap_bytes * 10 // 9)},
        },
    }
    ids = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), USER_ID)
    return {
        **config.pod,
        "serviceAccountName": names.GATEWAY_NAME,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        # a Service named penstock would inject variables that the controller rejects as unknown settings
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            **(ids if config.ids is IdSource.FIXED else {}),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector()},
            }
        ],
        "initContainers": [bootstrap, envoy],
        "containers": [controller],
        "volumes": volumes,
    }


def _container(name: str, config: GatewayConfig, args: list[str]) -> Manifest:
    policy = {"imagePullPolicy": config.image_pull_policy.value} if config.image_pull_policy else {}
    return {
        "name": name,
        "image": config.image,
        **policy,
        **({"args": args} if args else {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": "50m", "memory": "96Mi"},
            "limits": {"memory": "256Mi"},
        },
        "volumeMounts": [{"name": "run", "mountPath": SOCKET_FOLDER}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _probe(path: str, port: int) -> Manifest:
    return {"httpGet": {"path": path, "port": port}, "periodSeconds": 2, "timeoutSeconds": 2}


def _disruption_budget(metadata: Manifest) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector()},
        },
    }


def _network_policy(metadata: Manifest, peers: PoolPeers) -> Manifest:
    """Return the NetworkPolicy: the listeners admit clients, the status port the operator and Prometheus."""
    first, last = names.GATEWAY_PORTS
    admitted = [dict(peer) for peer in clients(peers)]
    status = [{"protocol": "TCP", "port": names.GATEWAY_STATUS_PORT}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": selector()},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "ports": [{"protocol": "TCP", "port": first, "endPort": last}],
                    **({"from": admitted} if admitted else {}),
                },
                {"ports": status, "from": [dict(peer) for peer in peers.cluster]},
            ],
        },
    }
