"""The conditions of kstatus, Stalled and Reconciling, by which GitOps tools wait for a pool.

Both are abnormal-true: at most one of them is present, and neither once the pool matches its spec
(https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus). In mode Auto the spec
requires `minReplicas` only, so a pool that serves and scales with its load counts as reconciled.
"""

from collections.abc import Iterable

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_api.types.scaling import ScalingMode
from penstock_operator.decide.manifests.replica_conflict import contested
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.status.conditions.loading import MODEL_LOADING
from penstock_operator.decide.status.conditions.progress import DEADLINE_EXCEEDED
from penstock_operator.decide.status.conditions.ready import SCALED_TO_ZERO
from penstock_operator.observed import PodObject

STALLED = "Stalled"
RECONCILING = "Reconciling"
SCHEDULING_SECONDS = 600.0
"""Time in which an autoscaler may add a node: a Deployment's default progress deadline."""
_UNDER_WAY = frozenset({"ReplicasUnavailable", MODEL_LOADING})
"""Reasons of Ready=False that end without an edit."""
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def kstatus(
    outcome: PoolOutcome, ready: Condition, progressing: Condition, now: float
) -> tuple[Condition, ...]:
    """Return Stalled if the pool cannot reach its spec without help, Reconciling while it still makes progress.

    `ready` and `progressing` are the pool's conditions of this pass, `now` is in Unix seconds.
    """
    obstacle = _rejected_edit(outcome)
    if obstacle is not None:
        return (obstacle,)
    if _matches_spec(outcome, ready):
        return ()
    cause = ready if _is_unready(ready) else progressing
    abnormal = STALLED if _needs_help(outcome, cause, now) else RECONCILING
    return (condition(abnormal, TRUE, cause.reason, cause.message),)


def is_stalled(conditions: Iterable[Condition]) -> bool:
    """Return whether the condition Stalled is among a pool's conditions."""
    return any(item.type == STALLED for item in conditions)


def startable(
    outcome: PoolOutcome, ready: Condition, progressing: Condition, now: float
) -> int | None:
    """Return the pods of a pool that are Ready or start, if no more can start for now; None if more can.

    An edit that is kept from taking effect keeps no pod from starting, unless the template in force is not allowed either.
    """
    if outcome.contested or not outcome.pinned.may_start_pods:
        return outcome.replicas
    cause = ready if _is_unready(ready) else progressing
    if _matches_spec(outcome, ready) or not _needs_help(outcome, cause, now):
        return None
    if cause.reason == DEADLINE_EXCEEDED:
        return len(outcome.ready)
    return sum(pod.ready or pod.problem is None for pod in outcome.pods)


def _rejected_edit(outcome: PoolOutcome) -> Condition | None:
    """Return Stalled if a policy, a rollback or another writer keeps the spec from taking effect."""
    if outcome.pinned.violations:
        message = "; ".join(outcome.pinned.violations)
        return condition(STALLED, TRUE, "TemplateNotAllowed", message)
    if outcome.rolled_back:
        message = f"{outcome.rolled_back}: see the PolicyApplied condition"
        return condition(STALLED, TRUE, "SetAside", message)
    if outcome.contested:
        return contested(outcome.replicas).model_copy(update={"type": STALLED, "status": TRUE})
    return None


def _matches_spec(outcome: PoolOutcome, ready: Condition) -> bool:
    if outcome.rollout.outdated or _is_unready(ready):
        return False
    surplus = len(outcome.pods) - outcome.replicas
    return len(outcome.ready) >= _required(outcome) and (_follows_load(outcome) or surplus <= 0)


def _is_unready(ready: Condition) -> bool:
    return ready.status is FALSE and ready.reason != SCALED_TO_ZERO


def _required(outcome: PoolOutcome) -> int:
    """Return the replicas that the spec requires; more follow the load."""
    if _follows_load(outcome):
        return min(outcome.effective.law.min_replicas, outcome.replicas)
    return outcome.replicas


def _follows_load(outcome: PoolOutcome) -> bool:
    return outcome.effective.scaling_mode is ScalingMode.AUTO


def _needs_help(outcome: PoolOutcome, cause: Condition, now: float) -> bool:
    """Return whether the cause stays until an edit of the pool, a policy or the cluster ends it."""
    if cause.status is TRUE or cause.reason in _UNDER_WAY:
        return False
    if cause.reason == "RolloutWaits":
        return outcome.rollout.needs_help
    if cause.reason == "NoDevicesGranted":
        return outcome.grant is None or _divided(outcome)
    if cause.reason == "Unschedulable":
        return any(_waited(pod, now) for pod in outcome.pods)
    return True


def _divided(outcome: PoolOutcome) -> bool:
    """Return whether the grant is final: every pool is known, and none still drains."""
    grant = outcome.grant
    return grant is not None and grant.divided and grant.replicas >= grant.entitled


def _waited(pod: PodObject, now: float) -> bool:
    since = pod.unschedulable_since
    return since is not None and now - since >= SCHEDULING_SECONDS
