"""Progressing: is something under way? UpToDate: do pods run what this operator would render?"""

from penstock_api import names
from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.children.revision import revision_name
from penstock_operator.decide.conditions.loading import loading
from penstock_operator.decide.conditions.problems import reason, sentence, worst
from penstock_operator.decide.conditions.readiness import deployment_condition
from penstock_operator.decide.findings import Findings

PROGRESSING = "Progressing"
UP_TO_DATE = "UpToDate"
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def progressing(found: Findings) -> Condition:
    """Return the condition; False is either done or stuck, as the reason says."""
    if found.conflicts or found.pinned.template is None:
        return condition(PROGRESSING, FALSE, "Blocked", "nothing is done until the pool is Ready")
    outdated, missing = _outdated(found), found.replicas - len(found.pods)
    settled = not outdated and not missing and len(found.ready) >= found.replicas
    if settled:
        return condition(PROGRESSING, FALSE, "Settled", "every replica runs the pinned template")
    return _stuck(found) or condition(PROGRESSING, TRUE, *_under_way(found, outdated, missing))


def _stuck(found: Findings) -> Condition | None:
    failing = worst(found.pods)
    if failing is not None:
        return condition(PROGRESSING, FALSE, reason(failing[1]), sentence(*failing))
    if deployment_condition(found, "Progressing").get("reason") == "ProgressDeadlineExceeded":
        message = "the rollout has not moved for an hour: see `kubectl describe` of its pods"
        return condition(PROGRESSING, FALSE, "ProgressDeadlineExceeded", message)
    return None


def _under_way(found: Findings, outdated: int, missing: int) -> tuple[str, str]:
    """Return the reason and message of what goes on."""
    if outdated:
        return "RollingOut", f"{outdated} pods still run an older template"
    if missing:
        return "Scaling", f"{len(found.pods)} pods, {found.replicas} wanted"
    load = loading(found)
    return "Starting", f"{len(found.ready)} of {found.replicas} ready" + (
        f"; {load}" if load else ""
    )


def _outdated(found: Findings) -> int:
    current = revision_name(found.pinned.template or {})
    return sum(pod.revision is not None and pod.revision != current for pod in found.pods)


def up_to_date(found: Findings) -> Condition:
    """Return the condition: False where a newer or an edited template waits."""
    if found.pinned.refusals:
        message = "the running template is kept: " + "; ".join(found.pinned.refusals)
        return condition(UP_TO_DATE, FALSE, "TemplateNotAllowed", message)
    if found.pinned.newer_available:
        message = (
            "this operator would render a newer pod template; running pods are kept: set the"
            f" annotation {names.ANNOTATION_RESTARTED_AT} on the pool to adopt it"
        )
        return condition(UP_TO_DATE, FALSE, "NewTemplateAvailable", message)
    return condition(UP_TO_DATE, TRUE, "LatestTemplate", "the pinned template is the latest")
