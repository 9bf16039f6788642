"""Conflicts with another writer of the workload's replicas: the operator reverts its writes, then backs off.

Every write of the operator annotates the workload with its count, so a different count comes from another writer.
After `MAX_REVERTS` such writes within `WINDOW_SECONDS` the operator stops reverting them until fewer of them remain
in the window.
"""

from dataclasses import dataclass

from penstock_api import names
from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.manifests.deployment import ReplicaCount
from penstock_operator.observed import ChildObject

WINDOW_SECONDS = 300.0
CONTESTED = "ReplicasContested"
MAX_REVERTS = 5
"""Another autoscaler (one write every 15 s) reaches it in 75 s; an accidental `kubectl scale` does not."""


@dataclass(frozen=True, slots=True)
class Contest:
    """The replicas to deploy, and the recent writes of another writer."""

    count: ReplicaCount
    writes: tuple[tuple[float, str], ...]
    """(time, generation of the workload) of the other writer's writes within the window."""
    backs_off: bool


def contest(
    deployed: ChildObject | None,
    desired: int,
    writes: tuple[tuple[float, str], ...],
    now: float,
) -> Contest:
    """Return the replicas to deploy for the `desired` count; `writes` are those of the contest before."""
    recent = tuple(write for write in writes if write[0] > now - WINDOW_SECONDS)
    if deployed is None:
        return Contest(ReplicaCount(desired, str(desired)), recent, backs_off=False)
    live, mark = _live(deployed)
    foreign = mark is not None and str(live) != mark
    version = _version(deployed)
    if foreign and version not in {earlier for _, earlier in recent}:
        recent = (*recent, (now, version))
    if foreign and mark is not None and len(recent) >= MAX_REVERTS:
        return Contest(ReplicaCount(live, mark), recent, backs_off=True)
    return Contest(ReplicaCount(desired, str(desired)), recent, backs_off=False)


def _version(deployed: ChildObject) -> str:
    """Return the version of the spec: the generation, since every status update changes the resourceVersion."""
    generation = deployed.manifest["metadata"].get("generation")
    return deployed.resource_version if generation is None else f"generation {generation}"


def _live(deployed: ChildObject) -> tuple[int, str | None]:
    annotations = deployed.manifest["metadata"].get("annotations") or {}
    replicas = deployed.manifest.get("spec", {}).get("replicas", 1)
    return int(replicas), annotations.get(names.ANNOTATION_REPLICAS)


def contested(replicas: int) -> Condition:
    """Return the Scaling condition for the time in which the operator backs off."""
    message = (
        f"another writer keeps changing the workload's replicas, now {replicas}, so the operator no longer reverts"
        " them: point that writer at the InferencePool's scale subresource, or stop it"
    )
    return condition("Scaling", ConditionStatus.FALSE, CONTESTED, message)
