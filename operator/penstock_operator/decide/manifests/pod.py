"""The pod template: a function of template-class fields and the pinned image, and of nothing else.

Not of a policy, not of the live limits, not of the operator's version (docs/design/design.md#template-and-live-fields).
"""

from typing import Any

from penstock_api import names
from penstock_api.types.pool import PoolSpec
from penstock_api.types.template import PodTemplate
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.container import container
from penstock_operator.decide.manifests.metadata import Manifest, child_name, labels
from penstock_operator.decide.manifests.volumes import volumes
from penstock_operator.observed import PoolObject

USER = 65532
"""`nonroot` of the shipped runtime image."""
DRAIN_DEADLINE_SECONDS = 120
"""Built-in `drain.deadlineSeconds`."""
STOP_ACCEPTING_SECONDS = 5
"""The runtime goes on accepting this long after SIGTERM (docs/design/runtime.md#drain)."""
GRACE_MARGIN_SECONDS = 15
"""To settle, close connections and unload after the drain's own deadline."""


def drain_deadline(spec: PoolSpec) -> int:
    """Return how long a pod may drain, in seconds."""
    return (spec.drain and spec.drain.deadline_seconds) or DRAIN_DEADLINE_SECONDS


def pod_template(pool: PoolObject, config: DecideConfig) -> Manifest:
    """Return the template of the pool's pods under restricted pod security."""
    wanted = pool.spec.template or PodTemplate()
    spec: dict[str, Any] = {
        "serviceAccountName": wanted.service_account_name or child_name(pool),
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": (
            drain_deadline(pool.spec) + STOP_ACCEPTING_SECONDS + GRACE_MARGIN_SECONDS
        ),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": volumes(pool),
        "containers": [container(pool, config, drain_deadline(pool.spec))],
        **_placement(wanted),
    }
    if wanted.service_account_name is None:  # another account's own word on tokens is respected
        spec["automountServiceAccountToken"] = False
    return {"metadata": _metadata(pool, wanted), "spec": spec}


def _metadata(pool: PoolObject, wanted: PodTemplate) -> Manifest:
    """The operator's labels win; `restartedAt` on the pool reaches the pods as their own."""
    annotations = dict(wanted.annotations or {})
    restarted = pool.annotations.get(names.ANNOTATION_RESTARTED_AT)
    if restarted:
        annotations[names.ANNOTATION_RESTARTED_AT] = restarted
    if pool.spec.tls is not None:
        annotations[names.ANNOTATION_SCHEME] = "https"
    held: Manifest = {"labels": {**(wanted.labels or {}), **labels(pool)}}
    return held | ({"annotations": annotations} if annotations else {})


def _placement(wanted: PodTemplate) -> dict[str, Any]:
    fields = {"node_selector", "tolerations", "priority_class_name", "image_pull_secrets"}
    given = wanted.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
    return {key: value for key, value in given.items() if value}
