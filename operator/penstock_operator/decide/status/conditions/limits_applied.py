"""The LimitsApplied condition: whether the ready pods acknowledged the published limits."""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.limits import unacknowledged_pods
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.observed import PodObject

LIMITS_APPLIED = "LimitsApplied"
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def limits_applied(outcome: PoolOutcome) -> Condition:
    """Return the condition over the ready pods; loading pods read the limits at startup."""
    limits = outcome.limits
    if limits is None or not outcome.ready:
        return condition(LIMITS_APPLIED, UNKNOWN, "Waiting", "no pod is ready yet")
    pending, total = unacknowledged_pods(outcome.view, limits), len(outcome.ready)
    acknowledged = (
        f"{total - len(pending)}/{total} ready pods acknowledged limits"
        f" generation {limits.generation}"
    )
    if not pending:
        return condition(LIMITS_APPLIED, TRUE, "AllPodsAcknowledged", acknowledged)
    unreached = [(pod, problem) for pod in pending if (problem := _problem(outcome, pod))]
    if unreached:
        problems = "; ".join(f"pod {pod.name}: {problem}" for pod, problem in unreached[:3])
        message = (
            f"{acknowledged}; {problems}: allow the operator to reach port 8001 of the pods;"
            " it retries at every tick"
        )
        return condition(LIMITS_APPLIED, FALSE, "PodsUnreachable", message)
    message = f"{acknowledged}; waiting for the others"
    return condition(LIMITS_APPLIED, FALSE, "Waiting", message)


def _problem(outcome: PoolOutcome, pod: PodObject) -> str:
    """Return why a push to a pod failed; empty before the first attempt, and where the pod loaded its model then."""
    if pod.host_network:
        return "it uses the host network, where the operator pushes no limits"
    answer = outcome.view.acknowledgements.get(pod.uid)
    return answer.problem if answer is not None and answer.loading is None else ""
