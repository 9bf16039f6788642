"""Rollout of a changed pod template: with a surge pod, by replacing pods in place, or waiting. Pure.

`spec.rollout.strategy` decides what happens without room for one more replica:

- SurgeThenReplace (default): surge; the rest of the rollout replaces pods once the new pod was unschedulable for 30 s
  where the end of an old one would make room, or where a budget or quota has no room; the time in which own pods
  terminate does not count
- Surge: surge, and wait for room; without room in a budget the rollout does not start
- Replace: one pod ends before its successor starts

Where only other rollouts and terminating pods use the free devices of a budget, a rollout that surges continues, and one
that has not started waits. A workload's controller waits for no terminating pod, so a rollout may use their devices too.

Until a budget is divided (a new operator, a new pool) its free devices are unknown: a rollout that surges continues,
one that has not started waits, and no rollout gives up its surge.

An annotation of the workload records, with the revision, that a rollout gave up its surge: it outlives the operator
and ends with the rollout. The operator reads no nodes or foreign pods, only the scheduler's message on the pool's pods.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from penstock_api import names
from penstock_api.types.pool import RolloutStrategy
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.pinned_template import Pinned
from penstock_operator.decide.manifests.pod_template.pod import grace_seconds
from penstock_operator.decide.manifests.revision import revision_name
from penstock_operator.decide.manifests.workload import (
    is_updating,
    max_surge,
    own_workload,
    template_in,
    waits,
    workload_key,
)
from penstock_operator.decide.quota_ledger import QuotaGrant, SurgeRoom, SurgeStage
from penstock_operator.observed import ChildObject, PodObject, PoolView, Rejection

UNPLACED_SECONDS = 30.0
"""A scheduler that has room binds a pod in seconds (docs/design/design.md#rollout)."""
ROOM = ("Insufficient ", "Too many pods", "ReadWriteOncePod")
"""Parts of the scheduler's message where the end of a pod may make room for another."""
HOPELESS = "Preemption is not helpful for scheduling"
HOPEFUL = "No preemption victims found"
"""kube-scheduler's verdict on each node, whether preemption could help; only the first on all nodes rules it out."""
WAITING_REMEDY = "raise the budget's count, or set SurgeThenReplace"
TURN_SECONDS = 3600.0
"""Time after which the rollouts ahead count as stuck (the default `progressDeadlineSeconds`), and the wait for them ends."""
UNDIVIDED = "not every pool under the GPU budget has been observed yet"


class RolloutSettings(StrEnum):
    """Rollout mode of the workload."""

    SURGE = "Surge"
    REPLACE = "Replace"
    WAIT = "Wait"
    """The pods stay as they are until there is room."""


class SurgeLimits(NamedTuple):
    """Limits of the additional pod of a surge."""

    grant: QuotaGrant | None = None
    draining: frozenset[str] = frozenset()
    """UIDs of the bound pods that terminate."""
    drained_at: float = 0.0
    """Time at which these pods last changed."""
    waits_since: float | None = None
    """Start of the wait for the rollouts that are ahead now; None while the rollout does not wait."""

    def seen(self, view: PoolView, grant: QuotaGrant | None, now: float) -> "SurgeLimits":
        """Return the limits updated with the pool's grant and its terminating pods."""
        draining = frozenset(pod.uid for pod in view.pods if pod.terminating and pod.scheduled)
        changed = draining != self.draining
        return SurgeLimits(
            grant=grant,
            draining=draining,
            drained_at=now if changed else self.drained_at,
            waits_since=self.waits_since if _ahead(grant) == _ahead(self.grant) else None,
        )

    def after(self, plan: "RolloutPlan", now: float) -> "SurgeLimits":
        """Return the limits updated with the decision of a pass; the wait ends once a decision against it is stored."""
        taken = self.grant is not None and self.grant.surge is SurgeRoom.TAKEN
        since = now if self.waits_since is None else self.waits_since
        return self._replace(waits_since=since if taken and plan.why else None)


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """The mode of a rollout and its reason."""

    way: RolloutSettings = RolloutSettings.SURGE
    outdated: int = 0
    """Pods of other templates that are not terminating."""
    gave_up: str = ""
    """Revision whose rollout gave up its surge; empty without one."""
    why: str = ""
    """Why there is no room; empty where an earlier pass reported it."""
    needs_help: bool = False
    """Whether the rollout waits until an edit of the pool, a policy or the cluster makes room; `why` has the remedy."""
    updating: bool = False
    """Whether groups of pods are still replaced, though none of an earlier template is left to end."""


def rollout(
    view: PoolView,
    deployed: ChildObject | None,
    pinned: Pinned,
    limits: SurgeLimits,
    now: float,
) -> RolloutPlan:
    """Return how pods get the pinned template; `deployed` is the pool's own workload."""
    current = revision_name(pinned.template or {}) or ""
    outdated = sum(_of_another(pod, current) for pod in view.pods)
    strategy = _strategy(view)
    if strategy is RolloutStrategy.REPLACE:
        return RolloutPlan(RolloutSettings.REPLACE, outdated)
    if deployed is None or not outdated:
        return RolloutPlan(_next_way(strategy, deployed, limits, now), outdated)
    if strategy is not RolloutStrategy.SURGE and _gave_up(deployed) == current:
        return RolloutPlan(RolloutSettings.REPLACE, outdated, current)
    short = _short(limits, now)
    turn = "" if short or _surges(deployed, current) else _turn(limits.grant)
    if needs_help := strategy is RolloutStrategy.SURGE and bool(short):
        turn = f"{short}, and spec.rollout.strategy is Surge: {WAITING_REMEDY}"
    if turn:
        return RolloutPlan(RolloutSettings.WAIT, outdated, why=turn, needs_help=needs_help)
    if strategy is RolloutStrategy.SURGE:
        return RolloutPlan(outdated=outdated)
    new = [pod for pod in view.pods if pod.revision == current and not pod.terminating]
    drains = grace_seconds(view.pool.spec) if limits.draining else 0
    lasts = now - limits.drained_at >= drains + UNPLACED_SECONDS
    why = short or (lasts and (_unplaced(new, now) or _quota(deployed, now)))
    return (
        RolloutPlan(RolloutSettings.REPLACE, outdated, current, why)
        if why
        else RolloutPlan(outdated=outdated)
    )


def surge_stage(view: PoolView, template: Manifest | None) -> SurgeStage:
    """Return the stage of the surge of a rollout to the pinned template; one that cannot begin is in no stage."""
    current, deployed = revision_name(template or {}) or "", own_workload(view)
    rolls = any(_of_another(pod, current) for pod in view.pods)
    replaces = _strategy(view) is RolloutStrategy.REPLACE
    if deployed is None or not rolls or replaces or _gave_up(deployed) == current:
        return SurgeStage.NONE
    if _surge_is_bound(view, deployed):
        return SurgeStage.BOUND
    if _surges(deployed, current):
        return SurgeStage.BEGUN
    return SurgeStage.NONE if _is_rejected(view) else SurgeStage.NEXT


def _is_rejected(view: PoolView) -> bool:
    """Return whether the API server rejects the workload, so that no rollout can begin."""
    return any(
        (item.kind, item.name) == workload_key(view.pool) and item.reason != Rejection.ALTERED
        for item in view.rejections
    )


def _strategy(view: PoolView) -> RolloutStrategy | None:
    return view.pool.spec.rollout.strategy if view.pool.spec.rollout is not None else None


def _next_way(
    strategy: RolloutStrategy | None, deployed: ChildObject | None, limits: SurgeLimits, now: float
) -> RolloutSettings:
    """Return the mode of the next rollout, as far as is known now."""
    surges = is_updating(deployed) and max_surge(deployed)  # the last groups are being replaced
    if surges or strategy is RolloutStrategy.SURGE:
        return RolloutSettings.SURGE
    replaces = max_surge(deployed) == 0 if _undivided(limits.grant) else bool(_short(limits, now))
    return RolloutSettings.REPLACE if replaces else RolloutSettings.SURGE


def _surges(deployed: ChildObject, current: str) -> bool:
    """Return whether the workload already has the current template and surges to it."""
    begun = revision_name(template_in(deployed)) == current and not waits(deployed)
    return begun and max_surge(deployed) != 0


def _surge_is_bound(view: PoolView, deployed: ChildObject) -> bool:
    """Return whether bound pods exceed the count by a surge; those of one template exceed it in a scale-down."""
    bound = [pod.revision for pod in view.pods if pod.scheduled and not pod.terminating]
    return len(set(bound)) > 1 and len(bound) > deployed.manifest["spec"].get("replicas", 1)


def _of_another(pod: PodObject, current: str) -> bool:
    return not pod.terminating and pod.revision is not None and pod.revision != current


def _gave_up(deployed: ChildObject) -> str:
    annotations = deployed.manifest["metadata"].get("annotations") or {}
    return str(annotations.get(names.ANNOTATION_WITHOUT_SURGE, ""))


def _ahead(grant: QuotaGrant | None) -> tuple[str, ...]:
    return () if grant is None else grant.ahead


def _undivided(grant: QuotaGrant | None) -> bool:
    return grant is not None and not grant.divided


def _short(limits: SurgeLimits, now: float) -> str:
    """Return the policy whose budget has no room for a surge; empty where there is room or it is unknown."""
    grant, since = limits.grant, limits.waits_since
    if grant is None or not grant.divided:
        return ""
    if grant.surge is SurgeRoom.TAKEN and since is not None and now - since >= TURN_SECONDS:
        return f"other rollouts and terminating pods have used the free devices of policy {grant.policy} for an hour"
    return f"policy {grant.policy} has no free device" if grant.surge is SurgeRoom.NONE else ""


def _turn(grant: QuotaGrant | None) -> str:
    """Return why a surge cannot begin yet; empty if it can."""
    if _undivided(grant):
        return UNDIVIDED
    if grant is None or grant.surge is not SurgeRoom.TAKEN:
        return ""
    return f"waiting for other rollouts and terminating pods to release devices of policy {grant.policy}"


def _unplaced(pods: Iterable[PodObject], now: float) -> str:
    """Return why a new pod is unschedulable, if that lasts long enough to replace an old pod first; else empty."""
    for pod in pods:
        since, problem = pod.unschedulable_since, pod.problem
        if since is None or problem is None or now - since < UNPLACED_SECONDS:
            continue
        if helped_by_leaving(problem.message):
            return f"pod {pod.name} has been unschedulable for 30 s: {problem.message}"
    return ""


def helped_by_leaving(message: str) -> bool:
    """Return whether an unschedulable pod might fit if another ended, by the scheduler's message."""
    if HOPELESS in message and HOPEFUL not in message:
        return False
    return any(part in message for part in ROOM)


def _quota(deployed: ChildObject, now: float) -> str:
    """Return the message of a ResourceQuota that prevents the Deployment from creating a pod."""
    conditions = deployed.status.get("conditions") or ()
    for item in conditions:
        full = item.get("type") == "ReplicaFailure" and item.get("status") == "True"
        message, since = item.get("message") or "", item.get("lastTransitionTime")
        if full and since and "exceeded quota" in message:
            age = now - datetime.fromisoformat(since).timestamp()
            return message if age >= UNPLACED_SECONDS else ""
    return ""
