"""The workload of a pool, the object that runs its pods: a Deployment, or a LeaderWorkerSet where a replica has several pods.

Which of them follows from the spec and never changes. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from penstock_api import names
from penstock_operator.decide.manifests.metadata import Manifest, child_name
from penstock_operator.observed import ChildObject, PoolObject, PoolView

DEPLOYMENT: Final = "Deployment"
LEADER_WORKER_SET: Final = "LeaderWorkerSet"
WORKLOADS: Final = (DEPLOYMENT, LEADER_WORKER_SET)


def workload_key(pool: PoolObject) -> tuple[str, str]:
    """Return kind and name of the pool's workload."""
    kind = LEADER_WORKER_SET if pool.spec.pods_per_replica > 1 else DEPLOYMENT
    return kind, child_name(pool)


def own_workload(view: PoolView) -> ChildObject | None:
    """Return the workload that the pool controls, if it exists."""
    live = view.children.get(workload_key(view.pool))
    return live if live is not None and live.controller_uid == view.pool.uid else None


def template_in(workload: ChildObject) -> Manifest:
    """Return the pod template of a workload; that of its leaders, if it has groups."""
    spec = workload.manifest["spec"]
    template: Manifest = (
        spec["template"]
        if workload.kind == DEPLOYMENT
        else spec["leaderWorkerTemplate"]["leaderTemplate"]
    )
    return template


def max_surge(workload: ChildObject | None) -> int | str | None:
    """Return the `maxSurge` of a workload; None where it is unset."""
    surge: int | str | None = _rolling_update(workload).get("maxSurge")
    return surge


def waits(workload: ChildObject) -> bool:
    """Return whether a workload keeps pods of earlier templates."""
    paused = (workload.manifest.get("spec") or {}).get("paused")
    return bool(paused) or bool(_rolling_update(workload).get("partition"))


def waiting_workload(view: PoolView) -> tuple[tuple[str, str], ...]:
    """Return kind and name of the pool's workload if it keeps pods of earlier templates; else nothing."""
    live = own_workload(view)
    return (workload_key(view.pool),) if live is not None and waits(live) else ()


def is_updating(workload: ChildObject | None) -> bool:
    """Return whether the controller of a LeaderWorkerSet still replaces groups, or has to remove the surge."""
    conditions = (workload.status.get("conditions") if workload is not None else None) or ()
    return any(
        condition.get("type") == "UpdateInProgress" and condition.get("status") == "True"
        for condition in conditions
    )


def _rolling_update(workload: ChildObject | None) -> Mapping[str, Any]:
    spec = (workload.manifest.get("spec") or {}) if workload is not None else {}
    step: Mapping[str, Any] = (
        spec.get("strategy", {}).get("rollingUpdate")
        or spec.get("rolloutStrategy", {}).get("rollingUpdateConfiguration")
        or {}
    )
    return step


def pods_in_replica(template: Manifest | None) -> int:
    """Return the number of pods of one replica of a template."""
    annotations = ((template or {}).get("metadata") or {}).get("annotations") or {}
    return int(annotations.get(names.ANNOTATION_NODES, 1))
