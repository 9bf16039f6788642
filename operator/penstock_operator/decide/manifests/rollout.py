"""How a change of the template reaches the pods: one more first, one less first, or not yet. Pure.

`spec.rollout.strategy` says what is given up where there is no room for one replica more:

- SurgeThenReplace (unset): surge; once the new pod found no room for 30 s that an old one's leaving could make,
  or a budget or quota has none, the rest of this rollout replaces
- Surge: surge, and wait for room; where a budget has none the rollout does not begin, for it would break the budget
- Replace: one pod is given up before its successor starts

Until a budget is divided (a new operator, a new pool) nobody knows what it has to spare: a rollout that surges goes on,
one that has not begun waits, and no surge is given up.

That a rollout gave up its surge is kept on the Deployment itself, under the revision that rolls: it outlives the
operator and ends with the rollout. No node and no foreign pod is read: the scheduler's own words tell.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from penstock_api import names
from penstock_api.types.pool import RolloutStrategy
from penstock_operator.decide.ledger import QuotaGrant
from penstock_operator.decide.manifests.pinned_template import Pinned
from penstock_operator.decide.manifests.revision import revision_name
from penstock_operator.observed import ChildObject, PodObject, PoolView

UNPLACED_SECONDS = 30.0
"""A scheduler that has room binds a pod in seconds (docs/design/design.md#rollout)."""
ROOM = ("Insufficient ", "Too many pods", "ReadWriteOncePod")
"""What a scheduler says where a pod's leaving may make room for another."""
HOPELESS = "Preemption is not helpful for scheduling"
HOPEFUL = "No preemption victims found"
"""kube-scheduler judges each node: would it help if pods left? Only the first verdict on all of them is hopeless."""
UNDIVIDED = "not every pool under the GPU budget was looked at yet"


class RolloutSettings(StrEnum):
    """What the Deployment is told."""

    SURGE = "Surge"
    REPLACE = "Replace"
    WAIT = "Wait"
    """The pods stay as they are until there is room."""


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """How a template that differs from the pods' own would reach them now."""

    way: RolloutSettings = RolloutSettings.SURGE
    outdated: int = 0
    """Pods of other templates that still serve."""
    gave_up: str = ""
    """The revision whose rollout replaces though it should surge; empty where none does."""
    why: str = ""
    """What there is no room in, in words; empty where that was found out before this pass."""


def rollout(
    view: PoolView,
    deployed: ChildObject | None,
    pinned: Pinned,
    grant: QuotaGrant | None,
    now: float,
) -> RolloutPlan:
    """Return how the pool's pods come to the pinned template; `deployed` is the pool's own Deployment."""
    current = revision_name(pinned.template or {}) or ""
    outdated = sum(_of_another(pod, current) for pod in view.pods)
    asked = (view.pool.spec.rollout and view.pool.spec.rollout.strategy) or None
    if asked is RolloutStrategy.REPLACE:
        return RolloutPlan(RolloutSettings.REPLACE, outdated)
    if deployed is None or not outdated:
        return RolloutPlan(_next_way(asked, deployed, grant), outdated)
    if asked is not RolloutStrategy.SURGE and _gave_up(deployed) == current:
        return RolloutPlan(RolloutSettings.REPLACE, outdated, current)
    if _undivided(grant) and not _surges(deployed, current):
        return RolloutPlan(RolloutSettings.WAIT, outdated, why=UNDIVIDED)
    short = _budget(grant)
    if asked is RolloutStrategy.SURGE:
        return RolloutPlan(
            RolloutSettings.WAIT if short else RolloutSettings.SURGE, outdated, why=short
        )
    new = [pod for pod in view.pods if pod.revision == current and not pod.terminating]
    why = short or _unplaced(new, now) or _quota(deployed, now)
    return (
        RolloutPlan(RolloutSettings.REPLACE, outdated, current, why)
        if why
        else RolloutPlan(outdated=outdated)
    )


def _next_way(
    asked: RolloutStrategy | None, deployed: ChildObject | None, grant: QuotaGrant | None
) -> RolloutSettings:
    """Return how the next rollout would begin, as far as is known now."""
    if asked is RolloutStrategy.SURGE:
        return RolloutSettings.SURGE
    replaces = _max_surge(deployed) == 0 if _undivided(grant) else bool(_budget(grant))
    return RolloutSettings.REPLACE if replaces else RolloutSettings.SURGE


def _surges(deployed: ChildObject, current: str) -> bool:
    """Return whether the Deployment was told of the current template already, and surges to it."""
    spec = deployed.manifest.get("spec") or {}
    begun = revision_name(spec.get("template") or {}) == current and not spec.get("paused")
    return begun and _max_surge(deployed) != 0


def _max_surge(deployed: ChildObject | None) -> int | str | None:
    """Return what the Deployment says; None where it says nothing."""
    spec = deployed.manifest.get("spec") or {} if deployed else {}
    step: int | str | None = spec.get("strategy", {}).get("rollingUpdate", {}).get("maxSurge")
    return step


def _of_another(pod: PodObject, current: str) -> bool:
    return not pod.terminating and pod.revision is not None and pod.revision != current


def _gave_up(deployed: ChildObject) -> str:
    held = deployed.manifest["metadata"].get("annotations") or {}
    return str(held.get(names.ANNOTATION_WITHOUT_SURGE, ""))


def _undivided(grant: QuotaGrant | None) -> bool:
    return grant is not None and not grant.divided


def _budget(grant: QuotaGrant | None) -> str:
    """Return whose budget has no room for a surge; empty where there is room, or nobody knows."""
    if grant is None or grant.surge or not grant.divided:
        return ""
    return f"policy {grant.policy} has no device to spare"


def _unplaced(pods: Iterable[PodObject], now: float) -> str:
    """Return why a new pod found no room for so long that an old one is given up for it."""
    for pod in pods:
        since, problem = pod.unschedulable_since, pod.problem
        if since is None or problem is None or now - since < UNPLACED_SECONDS:
            continue
        if helped_by_leaving(problem.message):
            return f"pod {pod.name} found no room for 30 s: {problem.message}"
    return ""


def helped_by_leaving(message: str) -> bool:
    """Tell from the scheduler's words whether an unschedulable pod might fit if another left."""
    if HOPELESS in message and HOPEFUL not in message:
        return False
    return any(word in message for word in ROOM)


def _quota(deployed: ChildObject, now: float) -> str:
    """Return the words of a ResourceQuota that lets the Deployment make no further pod."""
    conditions = deployed.status.get("conditions") or ()
    for one in conditions:
        full = one.get("type") == "ReplicaFailure" and one.get("status") == "True"
        message, since = one.get("message") or "", one.get("lastTransitionTime")
        if full and since and "exceeded quota" in message:
            age = now - datetime.fromisoformat(since).timestamp()
            return message if age >= UNPLACED_SECONDS else ""
    return ""
