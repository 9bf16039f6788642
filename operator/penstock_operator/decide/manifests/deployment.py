"""The Deployment of a pool's pods."""

from dataclasses import dataclass

from penstock_api import names
from penstock_api.pod_contract import MAX_LOAD_SECONDS
from penstock_operator.decide.manifests.metadata import Manifest, child_name, metadata, selector
from penstock_operator.decide.manifests.rollout import RolloutPlan, RolloutSettings
from penstock_operator.observed import PoolObject

PROGRESS_DEADLINE_SECONDS = MAX_LOAD_SECONDS
"""A rollout that loads large models is slow, not stuck."""
REPLICA_SETS_KEPT = 2
"""Templates are kept in ControllerRevisions; ReplicaSets only need to outlive a rollout."""


@dataclass(frozen=True, slots=True)
class ReplicaCount:
    """The replicas of a workload, and the mark that distinguishes the operator's writes from others."""

    replicas: int
    mark: str
    """The operator's desired count; differs from `replicas` while it backs off."""


def deployment(
    pool: PoolObject, template: Manifest, inputs: str, count: ReplicaCount, rolling: RolloutPlan
) -> Manifest:
    """Return the Deployment that runs `count` pods of the pinned `template`, rendered from `inputs`."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(pool, child_name(pool), annotations(inputs, count, rolling)),
        "spec": {
            "replicas": count.replicas,
            "selector": {"matchLabels": selector(pool)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": _step(rolling.way)},
            "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
            "revisionHistoryLimit": REPLICA_SETS_KEPT,
            "template": template,
            # a paused Deployment still scales the pods that it has
            **({"paused": True} if rolling.way is RolloutSettings.WAIT else {}),
        },
    }


def annotations(inputs: str, count: ReplicaCount, rolling: RolloutPlan) -> dict[str, str]:
    """Return the annotations of a workload."""
    own = {names.ANNOTATION_TEMPLATE_INPUTS: inputs, names.ANNOTATION_REPLICAS: count.mark}
    return own | ({names.ANNOTATION_WITHOUT_SURGE: rolling.gave_up} if rolling.gave_up else {})


def _step(way: RolloutSettings) -> dict[str, int]:
    """Return the rolling update: Surge needs devices for one more replica, Replace removes one replica first."""
    replace = way is RolloutSettings.REPLACE
    return {"maxSurge": int(not replace), "maxUnavailable": int(replace)}
