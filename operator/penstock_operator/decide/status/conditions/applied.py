"""LimitsApplied: do the pods obey the published limits?"""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.limits import unacknowledged_pods
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.observed import PodObject

LIMITS_APPLIED = "LimitsApplied"
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def limits_applied(found: PoolOutcome) -> Condition:
    """Return the condition over the pods that serve; loading pods read the limits when they start."""
    limits = found.limits
    if limits is None or not found.ready:
        return condition(LIMITS_APPLIED, UNKNOWN, "Waiting", "no pod is ready yet")
    disobeying = unacknowledged_pods(found.view, limits)
    obeying = f"{len(found.ready) - len(disobeying)} of {len(found.ready)} ready pods"
    if not disobeying:
        message = f"{obeying} obey generation {limits.generation}"
        return condition(LIMITS_APPLIED, TRUE, "AllPodsAcknowledged", message)
    unreached = [(pod, problem) for pod in disobeying if (problem := _problem(found, pod))]
    if unreached:
        told = "; ".join(f"pod {pod.name}: {problem}" for pod, problem in unreached[:3])
        message = (
            f"{obeying} obey generation {limits.generation}; {told}: let the operator reach port"
            " 8001 of the pods; it tries again every tick"
        )
        return condition(LIMITS_APPLIED, FALSE, "PodsUnreachable", message)
    message = f"{obeying} obey generation {limits.generation}; the others were just told"
    return condition(LIMITS_APPLIED, FALSE, "Waiting", message)


def _problem(found: PoolOutcome, pod: PodObject) -> str:
    """Return why a pod could not be told, or nothing if it has just not been asked yet."""
    if pod.host_network:
        return "it uses the node's network, where the operator sends nothing"
    answer = found.view.acknowledgements.get(pod.uid)
    return answer.problem if answer is not None else ""
