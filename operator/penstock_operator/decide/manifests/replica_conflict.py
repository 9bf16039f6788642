"""Somebody else writes the Deployment's replicas: set back as drift, but never in an endless fight.

Every write of ours marks the Deployment with the count it carried, so another count is another's. After
`ROUNDS` such writes within `WINDOW_SECONDS` the operator leaves the count alone until the other has been
quiet for so long that fewer remain in the window.
"""

from dataclasses import dataclass

from penstock_api import names
from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.manifests.deployment import ReplicaCount
from penstock_operator.observed import ChildObject

WINDOW_SECONDS = 300.0
CONTESTED = "ReplicasContested"
ROUNDS = 5
"""An autoscaler of another kind (15 s a round) is found out in 75 s; a person's slip never is."""


@dataclass(frozen=True, slots=True)
class Contest:
    """The count to ask for, and what is remembered of others' writes."""

    count: ReplicaCount
    seen: tuple[tuple[float, str], ...]
    """(when, generation of the Deployment) of others' writes within the window."""
    backs_off: bool


def contest(
    deployed: ChildObject | None,
    wanted: int,
    seen: tuple[tuple[float, str], ...],
    now: float,
) -> Contest:
    """Return what to ask of the Deployment whose replicas are `wanted`."""
    recent = tuple(one for one in seen if one[0] > now - WINDOW_SECONDS)
    if deployed is None:
        return Contest(ReplicaCount(wanted, str(wanted)), recent, backs_off=False)
    live, mark = _live(deployed)
    others = mark is not None and str(live) != mark
    write = _write(deployed)
    if others and write not in {one for _, one in recent}:
        recent = (*recent, (now, write))
    if others and mark is not None and len(recent) >= ROUNDS:
        return Contest(ReplicaCount(live, mark), recent, backs_off=True)
    return Contest(ReplicaCount(wanted, str(wanted)), recent, backs_off=False)


def _write(deployed: ChildObject) -> str:
    """Return what tells writes of the spec apart: the generation, for every report of its status is a new version."""
    generation = deployed.manifest["metadata"].get("generation")
    return deployed.resource_version if generation is None else f"generation {generation}"


def _live(deployed: ChildObject) -> tuple[int, str | None]:
    annotations = deployed.manifest["metadata"].get("annotations") or {}
    replicas = deployed.manifest.get("spec", {}).get("replicas", 1)
    return int(replicas), annotations.get(names.ANNOTATION_REPLICAS)


def contested(replicas: int) -> Condition:
    """Return what the Scaling condition says while the operator backs off."""
    message = (
        f"somebody else keeps writing the Deployment's replicas, now {replicas}: point that writer at"
        " the InferencePool's scale, or stop it; until then the count is left alone"
    )
    return condition("Scaling", ConditionStatus.FALSE, CONTESTED, message)
