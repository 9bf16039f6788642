"""Ready: does the pool serve?

As with a Deployment's Available, growing does not make a serving pool unready: Progressing tells what the
missing replicas wait for, so that `kubectl wait` and alerts see failures, not every scale-up.
"""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.ledger import BUDGET_LIMITED
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.status.conditions.loading import MODEL_LOADING, loading
from penstock_operator.decide.status.conditions.problems import reason, sentence, worst

READY = "Ready"
_NOTHING_SERVED = (
    "; no replica is wanted, so no request is served: set spec.replicas, or scaling.mode Auto"
)
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def ready(found: PoolOutcome) -> Condition:
    """Return the condition; what stands in the way is told before what merely takes time."""
    return (
        _conflict(found)
        or _rejection(found)
        or _not_allowed(found)
        or _no_devices(found)
        or _replicas(found)
    )  # fmt: skip


def _conflict(found: PoolOutcome) -> Condition | None:
    if not found.conflicts:
        return None
    taken = ", ".join(f"{one.kind} {one.name}" for one in found.conflicts)
    message = (
        f"{taken} exists and is not controlled by this pool, so it is left alone and nothing new is"
        " created: delete it, or give the pool another name"
    )
    return condition(READY, FALSE, "NameConflict", message)


def _rejection(found: PoolOutcome) -> Condition | None:
    if not found.view.rejections:
        return None
    told = "; ".join(
        f"{one.kind} {one.name}: {one.reason}: {one.message}" for one in found.view.rejections
    )
    message = f"the API server refused {told}: correct the spec, or what refuses it"
    return condition(READY, FALSE, "ChildRejected", message)


def _not_allowed(found: PoolOutcome) -> Condition | None:
    if found.pinned.template is not None:
        return None
    return condition(READY, FALSE, "TemplateNotAllowed", "; ".join(found.pinned.refusals))


def _no_devices(found: PoolOutcome) -> Condition | None:
    """A pool to which nothing is granted has all its replicas, none, and serves nobody."""
    if found.claim is None or found.replicas > 0 or found.claim.requested == 0:
        return None
    message = f"no device is granted to it: see {BUDGET_LIMITED}"
    return condition(READY, FALSE, "NoDevicesGranted", message)


def _replicas(found: PoolOutcome) -> Condition:
    wanted, serving = found.replicas, len(found.ready)
    count = f"{serving} of {wanted} replicas ready"
    if serving >= wanted:
        return condition(
            READY, TRUE, "AllReplicasReady", count if wanted else count + _NOTHING_SERVED
        )
    failing = worst(found.pods)
    if serving:
        starting = loading(found) or "the others are starting"
        why = sentence(*failing) if failing is not None else starting
        return condition(READY, TRUE, "SomeReplicasReady", f"{count}; {why}")
    if failing is not None:
        pod, problem = failing
        return condition(READY, FALSE, reason(problem), f"{count}; {sentence(pod, problem)}")
    failure = deployment_condition(found, "ReplicaFailure")
    if failure.get("status") == "True":
        message = f"{count}; {failure.get('message', '')}"
        return condition(READY, FALSE, failure.get("reason") or "ReplicaFailure", message)
    load = loading(found)
    if load is not None:
        return condition(READY, FALSE, MODEL_LOADING, f"{count}; {load}")
    return condition(READY, FALSE, "ReplicasUnavailable", f"{count}; waiting for the first")


def deployment_condition(found: PoolOutcome, type: str) -> dict[str, str]:
    """Return one of the Deployment's own conditions, or an empty one."""
    deployment = found.deployment
    held = (deployment.status.get("conditions") if deployment else None) or ()
    return next((dict(one) for one in held if one.get("type") == type), {})
