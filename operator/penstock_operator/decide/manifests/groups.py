"""The LeaderWorkerSet of a pool whose replicas are groups of pods (`parallelism.nodes`). Pure.

Pod 0 of a group, its leader, serves; the others are workers, which run ranks. One group is one replica. The fields are
those of LeaderWorkerSet 0.9 (`api/leaderworkerset/v1`).
"""

from typing import Any

from penstock_api import names
from penstock_operator.decide.manifests.deployment import ReplicaCount, annotations
from penstock_operator.decide.manifests.metadata import Manifest, child_name, metadata
from penstock_operator.decide.manifests.rollout import RolloutPlan, RolloutSettings
from penstock_operator.decide.manifests.workload import LEADER_WORKER_SET, pods_in_replica
from penstock_operator.observed import PoolObject

API_VERSION = "leaderworkerset.x-k8s.io/v1"
SERVING_LABELS = frozenset(
    {names.LABEL_POOL, names.LABEL_VARIANT, names.LABEL_VARIANT_OF, names.LABEL_VARIANT_OF_UID}
)
"""Labels by which a gateway and a Service find pods that serve."""
WORKER = "worker"
"""Component of workers, and the name of their one port, which no monitor scrapes."""


def leader_worker_set(
    pool: PoolObject, template: Manifest, inputs: str, count: ReplicaCount, rolling: RolloutPlan
) -> Manifest:
    """Return the LeaderWorkerSet that runs `count` groups of the pinned `template`, rendered from `inputs`."""
    return {
        "apiVersion": API_VERSION,
        "kind": LEADER_WORKER_SET,
        "metadata": metadata(pool, child_name(pool), annotations(inputs, count, rolling)),
        "spec": {
            "replicas": count.replicas,
            # a leader is ready once its workers have loaded: LeaderReady would wait forever
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": _step(rolling, count.replicas),
            },
            "leaderWorkerTemplate": {
                "size": pods_in_replica(template),
                # the runtime ends all pods of a group together; a new group would lose the pods' last words
                "restartPolicy": "None",
                "leaderTemplate": template,
                "workerTemplate": worker_template(template),
            },
        },
    }


def _step(rolling: RolloutPlan, replicas: int) -> dict[str, int]:
    """Return the rolling update, as that of a Deployment; groups below the partition keep their template.

    At rest there is no surge: for the controller a change of the count is an update too, which would keep a surplus group
    while another is not ready. In a rollout the surge serves until the last group is replaced.
    """
    rolls = rolling.outdated > 0 or rolling.updating
    surges = rolling.way is RolloutSettings.SURGE and rolls
    waits = rolling.way is RolloutSettings.WAIT
    return {
        "maxSurge": int(surges),
        "maxUnavailable": int(not surges),
        "partition": replicas if waits else 0,
    }


def worker_template(template: Manifest) -> Manifest:
    """Return the template of the workers: no Service, gateway or monitor selects them."""
    given = template["metadata"]
    labels = {key: text for key, text in given["labels"].items() if key not in SERVING_LABELS}
    spec = template["spec"]
    return {
        "metadata": {**given, "labels": {**labels, names.LABEL_APP_COMPONENT: WORKER}},
        "spec": {**spec, "containers": [_worker(container) for container in spec["containers"]]},
    }


def _worker(container: Manifest) -> Manifest:
    """Return the container with the one port that a worker has."""
    port = {"name": WORKER, "containerPort": names.CLUSTER_PORT, "protocol": "TCP"}
    probes = {key: _on_port(probe) for key, probe in container.items() if key.endswith("Probe")}
    return {**container, **probes, "ports": [port]}


def _on_port(probe: dict[str, Any]) -> dict[str, Any]:
    return {**probe, "httpGet": {**probe["httpGet"], "port": WORKER}}
