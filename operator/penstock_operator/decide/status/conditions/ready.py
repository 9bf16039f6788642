"""The Ready condition: whether the pool serves requests.

As with a Deployment's Available, scaling up does not make a serving pool unready: Progressing reports what missing
replicas wait for, so that `kubectl wait` and alerts react to failures and not to every scale-up. Unlike Available, it
is False at zero replicas, unless a gateway holds requests and the first one starts a replica: otherwise they fail
(docs/design/decisions.md#a-pool-at-zero-replicas-is-not-ready).
"""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.manifests.replica_conflict import contested
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.quota_ledger import BUDGET_LIMITED
from penstock_operator.decide.scaling.zero import may_be_at_zero
from penstock_operator.decide.status.conditions.loading import MODEL_LOADING, loading
from penstock_operator.decide.status.conditions.problems import reason, sentence, worst
from penstock_operator.observed import PoolView, Rejection

READY = "Ready"
SCALED_TO_ZERO = "ScaledToZero"
FAILED_CREATE = "FailedCreate"
"""Reason of the Deployment's condition ReplicaFailure where pods cannot be created."""
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def ready(outcome: PoolOutcome) -> Condition:
    """Return the condition; obstacles take precedence over progress."""
    return (
        _conflict(outcome)
        or rejection(outcome.view)
        or _not_allowed(outcome)
        or _no_devices(outcome)
        or _zero(outcome)
        or _replicas(outcome)
    )  # fmt: skip


def _conflict(outcome: PoolOutcome) -> Condition | None:
    if not outcome.conflicts:
        return None
    taken = ", ".join(f"{item.kind} {item.name}" for item in outcome.conflicts)
    message = (
        f"{taken} exists and is not controlled by this pool, so no new child is created: delete it,"
        " or give the pool another name"
    )
    return condition(READY, FALSE, "NameConflict", message)


def rejection(view: PoolView) -> Condition | None:
    """Return the condition of a pool with a child that the API server rejected, or None."""
    rejected = "; ".join(
        f"{item.kind} {item.name}: {item.reason}: {item.message}"
        for item in view.rejections
        if item.reason != Rejection.ALTERED
    )
    if not rejected:
        return None
    message = f"the API server rejected {rejected}: correct the spec, or the rule that rejects it"
    return condition(READY, FALSE, "ChildRejected", message)


def _not_allowed(outcome: PoolOutcome) -> Condition | None:
    if outcome.pinned.template is not None:
        return None
    return condition(READY, FALSE, "TemplateNotAllowed", "; ".join(outcome.pinned.violations))


def _no_devices(outcome: PoolOutcome) -> Condition | None:
    """Return the condition of a pool without a grant, which has all of its zero replicas and serves no request."""
    request = outcome.quota_request
    if request is None or outcome.replicas > 0 or request.requested == 0:
        return None
    message = f"no device is granted to the pool: see the {BUDGET_LIMITED} condition"
    return condition(READY, FALSE, "NoDevicesGranted", message)


def _zero(outcome: PoolOutcome) -> Condition | None:
    """Return the condition of a pool whose workload has zero replicas, by the spec or against it."""
    if outcome.replicas > 0:
        return None
    if may_be_at_zero(outcome.effective) and outcome.scaling.replicas == 0:
        return _held(outcome)
    if outcome.scaling.replicas == 0:
        message = (
            "the pool has zero replicas and serves no requests, and a request does not start a replica:"
            " set spec.replicas to 1 or more, or spec.scaling.mode to Auto"
        )
        return condition(READY, FALSE, SCALED_TO_ZERO, message)
    if outcome.contested:
        other = contested(outcome.replicas)
        return condition(READY, FALSE, other.reason, other.message)
    return condition(READY, FALSE, "TemplateNotAllowed", "; ".join(outcome.pinned.violations))


def _held(outcome: PoolOutcome) -> Condition:
    """Return the condition of a pool at zero whose first request starts a replica, if the gateway holds that request."""
    if outcome.view.gateway.holding:
        message = "no replica runs: the gateway holds requests, and the first one starts a replica"
        return condition(READY, TRUE, "IdleAtZero", message)
    why = outcome.view.gateway.problem or "no pod of the gateway is ready"
    message = f"no replica runs, and the gateway holds no request: {why}; or set spec.scaling.minReplicas to 1"
    return condition(READY, FALSE, "GatewayNotHolding", message)


def _replicas(outcome: PoolOutcome) -> Condition:
    desired, serving = outcome.replicas, len(outcome.ready)
    count = f"{serving}/{desired} replicas ready"
    if serving >= desired:
        return condition(READY, TRUE, "AllReplicasReady", count)
    failing = worst(outcome.pods)
    if serving:
        starting = loading(outcome) or "the others are starting"
        why = sentence(*failing) if failing is not None else starting
        return condition(READY, TRUE, "SomeReplicasReady", f"{count}; {why}")
    if failing is not None:
        pod, problem = failing
        return condition(READY, FALSE, reason(problem), f"{count}; {sentence(pod, problem)}")
    failure = workload_condition(outcome, "ReplicaFailure")
    if failure.get("status") == "True" and failure.get("reason") == FAILED_CREATE:
        message = f"{count}; {failure.get('message', '')}"
        return condition(READY, FALSE, FAILED_CREATE, message)
    load = loading(outcome)
    if load is not None:
        return condition(READY, FALSE, MODEL_LOADING, f"{count}; {load}")
    first = f"pod {outcome.pods[0].name} is starting" if outcome.pods else "no pod exists yet"
    return condition(READY, FALSE, "ReplicasUnavailable", f"{count}; {first}")


def workload_condition(outcome: PoolOutcome, type: str) -> dict[str, str]:
    """Return a condition of the workload; empty without it."""
    workload = outcome.workload
    conditions = (workload.status.get("conditions") if workload else None) or ()
    return next((dict(item) for item in conditions if item.get("type") == type), {})
