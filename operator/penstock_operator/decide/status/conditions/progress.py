"""The conditions Progressing, a rollout or a scale under way, and UpToDate, the pinned template and the CRD."""

from penstock_api import names
from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.manifests.revision import number_of, revision_name
from penstock_operator.decide.manifests.rollout import RolloutSettings
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.status.conditions.loading import loading
from penstock_operator.decide.status.conditions.problems import reason, sentence, worst
from penstock_operator.decide.status.conditions.ready import workload_condition
from penstock_operator.observed import PoolView, Rejection

PROGRESSING = "Progressing"
ROLLING_OUT = "RollingOut"
DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
UP_TO_DATE = "UpToDate"
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def progressing(outcome: PoolOutcome) -> Condition:
    """Return the condition; the reason distinguishes complete from stuck where it is False."""
    if outcome.conflicts or outcome.pinned.template is None:
        return condition(PROGRESSING, FALSE, "Blocked", "blocked: see the Ready condition")
    outdated, missing = outcome.rollout.outdated, outcome.replicas - len(outcome.pods)
    settled = not outdated and not missing and len(outcome.ready) >= outcome.replicas
    if settled and not outcome.rollout.updating:
        return condition(PROGRESSING, FALSE, "Settled", "every replica runs the pinned template")
    if outcome.rollout.way is RolloutSettings.WAIT:
        return condition(PROGRESSING, FALSE, "RolloutWaits", outcome.rollout.why)
    return _stuck(outcome) or condition(PROGRESSING, TRUE, *_under_way(outcome, missing))


def _stuck(outcome: PoolOutcome) -> Condition | None:
    failing = worst(outcome.pods)
    if failing is not None:
        message = sentence(*failing) + _way_back(outcome)
        return condition(PROGRESSING, FALSE, reason(failing[1]), message)
    if workload_condition(outcome, "Progressing").get("reason") == DEADLINE_EXCEEDED:
        message = "the rollout has made no progress for an hour: see `kubectl describe` of its pods"
        return condition(PROGRESSING, FALSE, DEADLINE_EXCEEDED, message + _way_back(outcome))
    return None


def _way_back(outcome: PoolOutcome) -> str:
    """Return how to undo a rollout that has no ready pod; empty where there is one."""
    current = revision_name(outcome.pinned.template or {})
    past = [item for item in outcome.view.revisions if item.name != current and not item.deleting]
    if not past or any(pod.revision == current for pod in outcome.ready):
        return ""
    before = max(past, key=number_of).name
    pods, serve = ("pod", "serves") if outcome.rollout.outdated == 1 else ("pods", "serve")
    kept = (
        f"; {outcome.rollout.outdated} {pods} of the previous template still {serve}"
        if outcome.rollout.outdated
        else ""
    )
    return (
        f"{kept}; to return to revision {before}, undo the edit of the spec"
        f" (or of the annotation {names.ANNOTATION_RESTARTED_AT})"
    )


def _under_way(outcome: PoolOutcome, missing: int) -> tuple[str, str]:
    """Return reason and message of the change under way."""
    if outcome.rollout.outdated:
        how = {
            RolloutSettings.SURGE: "starting one new pod at a time before an old one stops",
            RolloutSettings.REPLACE: "stopping one old pod at a time before a new one starts",
        }
        runs = "runs" if outcome.rollout.outdated == 1 else "run"
        message = f"{_pods(outcome.rollout.outdated)} still {runs} an older template"
        return ROLLING_OUT, f"{message}: {how[outcome.rollout.way]}"
    if outcome.rollout.updating:
        return ROLLING_OUT, "the last groups of pods are being replaced"
    if missing:
        return "Scaling", f"{_pods(len(outcome.pods))}, {outcome.replicas} desired"
    load = loading(outcome)
    return "Starting", f"{len(outcome.ready)}/{outcome.replicas} replicas ready" + (
        f"; {load}" if load else ""
    )


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def up_to_date(outcome: PoolOutcome) -> Condition:
    """Return the condition: False if a newer or edited template is pending, a webhook alters a child, or the served CRD differs."""
    if outcome.pinned.violations:
        message = "the running template stays: " + "; ".join(outcome.pinned.violations)
        return condition(UP_TO_DATE, FALSE, "TemplateNotAllowed", message)
    if (altered := alteration(outcome.view)) is not None:
        return altered
    if outcome.pinned.newer_available:
        message = (
            "this operator version renders a newer pod template; running pods keep theirs: set the"
            f" annotation {names.ANNOTATION_RESTARTED_AT} on the pool to adopt it"
        )
        return condition(UP_TO_DATE, FALSE, "NewTemplateAvailable", message)
    if skew := outcome.pool_schema.sentence():
        older = bool(outcome.pool_schema.lacking)
        message = f"the pods are up to date; the InferencePool CRD {skew}"
        return condition(UP_TO_DATE, FALSE, "OlderSchema" if older else "NewerSchema", message)
    return condition(UP_TO_DATE, TRUE, "LatestTemplate", "the pinned template is the latest")


def alteration(view: PoolView) -> Condition | None:
    """Return the condition of a pool with a child that a webhook alters, or None."""
    altered = [item for item in view.rejections if item.reason == Rejection.ALTERED]
    if not altered:
        return None
    items = "; ".join(f"{item.kind} {item.name}: {item.message}" for item in altered)
    message = f"{items}; the operator retries with back-off, up to 10 minutes: exempt the object from that webhook"
    return condition(UP_TO_DATE, FALSE, "ChildAltered", message)
