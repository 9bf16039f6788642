"""Progressing: is something under way? UpToDate: do pods run what this operator would render?"""

from penstock_api import names
from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.manifests.revision import number_of, revision_name
from penstock_operator.decide.manifests.rollout import RolloutSettings
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.status.conditions.loading import loading
from penstock_operator.decide.status.conditions.problems import reason, sentence, worst
from penstock_operator.decide.status.conditions.readiness import deployment_condition

PROGRESSING = "Progressing"
UP_TO_DATE = "UpToDate"
WAITING_REMEDY = "raise the budget's count, or set spec.rollout.strategy to SurgeThenReplace"
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def progressing(found: PoolOutcome) -> Condition:
    """Return the condition; False is either done or stuck, as the reason says."""
    if found.conflicts or found.pinned.template is None:
        return condition(PROGRESSING, FALSE, "Blocked", "nothing is done until the pool is Ready")
    outdated, missing = found.rollout.outdated, found.replicas - len(found.pods)
    settled = not outdated and not missing and len(found.ready) >= found.replicas
    if settled:
        return condition(PROGRESSING, FALSE, "Settled", "every replica runs the pinned template")
    if found.rollout.way is RolloutSettings.WAIT:
        return condition(PROGRESSING, FALSE, "RolloutWaits", _waits(found))
    return _stuck(found) or condition(PROGRESSING, TRUE, *_under_way(found, missing))


def _waits(found: PoolOutcome) -> str:
    if found.grant is not None and not found.grant.divided:
        return found.rollout.why
    return f"{found.rollout.why}, and the strategy is Surge: {WAITING_REMEDY}"


def _stuck(found: PoolOutcome) -> Condition | None:
    failing = worst(found.pods)
    if failing is not None:
        message = sentence(*failing) + _way_back(found)
        return condition(PROGRESSING, FALSE, reason(failing[1]), message)
    if deployment_condition(found, "Progressing").get("reason") == "ProgressDeadlineExceeded":
        message = "the rollout has not moved for an hour: see `kubectl describe` of its pods"
        return condition(PROGRESSING, FALSE, "ProgressDeadlineExceeded", message + _way_back(found))
    return None


def _way_back(found: PoolOutcome) -> str:
    """Return how to leave a rollout whose first pod does not come up; nothing where none is stuck."""
    current = revision_name(found.pinned.template or {})
    past = [one for one in found.view.revisions if one.name != current and not one.deleting]
    if not past or any(pod.revision == current for pod in found.ready):
        return ""
    before = max(past, key=number_of).name
    kept = (
        f"; {found.rollout.outdated} pods of the template before go on"
        if found.rollout.outdated
        else ""
    )
    return (
        f"{kept}; to go back to it, {before}, undo the edit of the spec"
        f" (or of the annotation {names.ANNOTATION_RESTARTED_AT})"
    )


def _under_way(found: PoolOutcome, missing: int) -> tuple[str, str]:
    """Return the reason and message of what goes on."""
    if found.rollout.outdated:
        how = {
            RolloutSettings.SURGE: "one pod more at a time",
            RolloutSettings.REPLACE: "one pod less at a time",
        }
        message = f"{found.rollout.outdated} pods still run an older template"
        return "RollingOut", f"{message}: {how[found.rollout.way]}"
    if missing:
        return "Scaling", f"{len(found.pods)} pods, {found.replicas} wanted"
    load = loading(found)
    return "Starting", f"{len(found.ready)} of {found.replicas} ready" + (
        f"; {load}" if load else ""
    )


def up_to_date(found: PoolOutcome) -> Condition:
    """Return the condition: False where a newer or an edited template waits, or the CRD is not this operator's."""
    if found.pinned.refusals:
        message = "the running template is kept: " + "; ".join(found.pinned.refusals)
        return condition(UP_TO_DATE, FALSE, "TemplateNotAllowed", message)
    if found.pinned.newer_available:
        message = (
            "this operator would render a newer pod template; running pods are kept: set the"
            f" annotation {names.ANNOTATION_RESTARTED_AT} on the pool to adopt it"
        )
        return condition(UP_TO_DATE, FALSE, "NewTemplateAvailable", message)
    if skew := found.pool_schema.sentence():
        older = bool(found.pool_schema.lacking)
        message = f"the pods are up to date; the CRD of pools {skew}"
        return condition(UP_TO_DATE, FALSE, "OlderSchema" if older else "NewerSchema", message)
    return condition(UP_TO_DATE, TRUE, "LatestTemplate", "the pinned template is the latest")
