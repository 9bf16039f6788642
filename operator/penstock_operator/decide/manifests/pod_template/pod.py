"""The pod template of a pool, which depends on its template fields and the pinned image only.

Policies and live limits do not change it (docs/design/design.md#template-and-live-fields).
"""

from typing import Any

from penstock_api import names
from penstock_api.types.model import Task
from penstock_api.types.pod_template.security import IdSource, PodSecurityContext
from penstock_api.types.pod_template.template import PodTemplate
from penstock_api.types.pool import PoolSpec
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.metadata import (
    Manifest,
    child_name,
    labels,
    selector,
)
from penstock_operator.decide.manifests.pod_template.container import container
from penstock_operator.decide.manifests.pod_template.volumes import volumes
from penstock_operator.observed import PoolObject

USER = 65532
"""`nonroot` of the shipped runtime image."""
DRAIN_DEADLINE_SECONDS = 120
"""Built-in `drain.deadlineSeconds`."""
RELAY_SECONDS = 600
"""Built-in `drain.relaySeconds`."""
STOP_ACCEPTING_SECONDS = 5
"""Time after SIGTERM in which the runtime still accepts requests (docs/design/runtime.md#drain)."""
GRACE_MARGIN_SECONDS = 15
"""Time to complete requests, close connections and unload the model after the last relayed response."""


def drain_deadline(spec: PoolSpec) -> int:
    """Return the drain deadline of a pod, in seconds."""
    return (spec.drain and spec.drain.deadline_seconds) or DRAIN_DEADLINE_SECONDS


def relay_seconds(spec: PoolSpec) -> int:
    """Return how long a pod relays generations that other pods continue, in seconds; 0 for models without generations."""
    if spec.model.task is not Task.TEXT_GENERATION:
        return 0
    given = spec.drain.relay_seconds if spec.drain else None
    return RELAY_SECONDS if given is None else given


def drain_seconds(spec: PoolSpec) -> int:
    """Return the longest time from SIGTERM to the last response, in seconds."""
    return drain_deadline(spec) + relay_seconds(spec)


def grace_seconds(spec: PoolSpec) -> int:
    """Return the time from the deletion of a pod until the kubelet kills it, in seconds."""
    return drain_seconds(spec) + STOP_ACCEPTING_SECONDS + GRACE_MARGIN_SECONDS


def pod_template(pool: PoolObject, config: DecideConfig) -> Manifest:
    """Return the template of the pool's pods under restricted pod security."""
    own = pool.spec.template or PodTemplate()
    spec: dict[str, Any] = {
        "serviceAccountName": own.service_account_name or child_name(pool),
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds(pool.spec),
        "securityContext": {
            "runAsNonRoot": True,
            **_ids(own.security_context or PodSecurityContext(), config.pool_ids),
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": volumes(pool),
        "containers": [container(pool, config, _drain_settings(pool))],
        **_placement(pool, own),
    }
    if own.service_account_name is None:  # a named account sets itself whether tokens are mounted
        spec["automountServiceAccountToken"] = False
    return {"metadata": _metadata(pool, own), "spec": spec}


def _drain_settings(pool: PoolObject) -> dict[str, str]:
    """Return the variables of the drain by name."""
    spec, relay = pool.spec, relay_seconds(pool.spec)
    settings = {names.ENV_DRAIN_DEADLINE_SECONDS: str(drain_deadline(spec))}
    if relay:
        secure = spec.tls is not None
        settings[names.ENV_PEER_URL] = names.service_url(pool.name, pool.namespace, secure=secure)
        settings[names.ENV_RELAY_SECONDS] = str(relay)
    return settings


def _metadata(pool: PoolObject, own: PodTemplate) -> Manifest:
    """Return the pods' metadata: the operator's labels take precedence, `restartedAt` is copied from the pool."""
    annotations = dict(own.annotations or {})
    restarted = pool.annotations.get(names.ANNOTATION_RESTARTED_AT)
    if restarted:
        annotations[names.ANNOTATION_RESTARTED_AT] = restarted
    if pool.spec.tls is not None:
        annotations[names.ANNOTATION_SCHEME] = "https"
    if pool.spec.pods_per_replica > 1:
        annotations[names.ANNOTATION_NODES] = str(pool.spec.pods_per_replica)
    metadata: Manifest = {"labels": {**(own.labels or {}), **labels(pool)}}
    return metadata | ({"annotations": annotations} if annotations else {})


def _ids(own: PodSecurityContext, default: IdSource) -> dict[str, Any]:
    """Return the user and group IDs: the pool's own, and for the others the fixed ones or none."""
    fixed: dict[str, Any] = {"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER}
    given = own.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"ids"})
    return {**(fixed if (own.ids or default) is IdSource.FIXED else {}), **given}


_PLACEMENT = {
    "node_selector",
    "tolerations",
    "affinity",
    "topology_spread_constraints",
    "scheduler_name",
    "runtime_class_name",
    "priority_class_name",
    "image_pull_secrets",
    "resource_claims",
}
"""Fields that the pod takes as they are."""


def _placement(pool: PoolObject, own: PodTemplate) -> dict[str, Any]:
    given = own.model_dump(mode="json", by_alias=True, exclude_none=True, include=_PLACEMENT)
    for constraint in given.get("topologySpreadConstraints", ()):
        # without a selector a constraint would count no pod
        constraint.setdefault("labelSelector", {"matchLabels": selector(pool)})
    return {key: value for key, value in given.items() if value}
