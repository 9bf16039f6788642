"""Conditions and Events about scaling. Pure.

A text is unchanged while its cause is unchanged, so that an unchanged pool writes nothing.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

from penstock_api.conditions import Condition, condition
from penstock_api.types.scaling import ScalingMode
from penstock_operator.decide.actions import EventNote, EventType
from penstock_operator.decide.scaling.failure import LawFailure
from penstock_operator.decide.scaling.law import Decision
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import PoolSignals, SignalSource

REPLICAS_IGNORED = "ReplicasIgnored"
HELD = "Held"
LAW_FAILED = "LawFailed"
NOT_ACTING = {
    ScalingMode.MANUAL: ("Manual", "spec.replicas sets the count"),
    ScalingMode.HOLD: (HELD, "the count is frozen; the law only records its decisions"),
    ScalingMode.RECOMMEND: (
        "Recommending",
        "spec.replicas sets the count; desiredReplicas is the law's recommendation",
    ),
}
"""Reason and effect of the modes in which the law does not set the count."""


def scaling_condition(
    effective: EffectiveSpec, *, ignored: bool, blind: bool, failure: LawFailure | None = None
) -> Condition:
    """Return the condition `Scaling`: True if the law sets the count, else the reason.

    `ignored`: spec.replicas was edited in Auto; `blind`: there are Ready pods but no signals; `failure`: the law raised.
    """
    law, mode = effective.law, effective.scaling_mode
    status: bool | Literal["Unknown"] = False
    if mode in NOT_ACTING:
        reason, effect = NOT_ACTING[mode]
        text = f"scaling.mode is {mode.value}: {effect}"
    elif failure is not None:
        reason = LAW_FAILED
        text = (
            f"{failure.law} failed ({failure.summary}): the replica count and the batch cap are unchanged; the law is"
            " retried at every tick. Report the operator's log line of this failure"
        )
    elif ignored:
        status, reason = True, REPLICAS_IGNORED
        text = (
            "spec.replicas was changed, but scaling.mode is Auto and the law sets the count:"
            " use minReplicas and maxReplicas, or mode Manual"
        )
    elif blind:
        reason, text = "SignalsAbsent", "no signals: the replica count is held"
    else:
        status, reason = True, "Acting"
        bounds = f"{law.min_replicas} and {law.max_replicas}"
        text = f"{effective.algorithm} sets the count between {bounds}"
    return condition("Scaling", status, reason, text)


def metrics_condition(
    decision: Decision, signals: PoolSignals, ready_pods: int, replicas: int
) -> Condition:
    """Return the condition `MetricsAvailable`: the source of signals, or why there are none.

    `replicas` is the Deployment's count; the status is Unknown if it is 0.
    """
    if ready_pods == 0:
        text = "no pod is Ready; there is nothing to measure"
        status: bool | Literal["Unknown"] = False if replicas else "Unknown"
        return condition("MetricsAvailable", status, "NoReadyPods", text)
    if not decision.metrics_available or signals.source is SignalSource.NONE:
        text = signals.problem or (
            "more than half of the Ready pods have no sample under 30 s old,"
            " or had none within the last 15 s: normal right after a start; if it lasts,"
            " allow Prometheus and the operator to reach port 8001"
        )
        return condition("MetricsAvailable", status=False, reason="NoSignals", message=text)
    if decision.observations.off_curve is not None:
        which = "fewer" if decision.observations.off_curve < 0 else "more"
        text = (
            f"busy pods serve over 10 % {which} rows than their service curve predicts, so the capacity is uncertain:"
            " check for other processes on the devices and for pauses between batches"
        )
        return condition("MetricsAvailable", status=True, reason="CurveInconsistent", message=text)
    if signals.source is SignalSource.PROMETHEUS:
        text = "signals come from Prometheus"
        return condition("MetricsAvailable", status=True, reason="FromPrometheus", message=text)
    return condition(
        "MetricsAvailable", status=True, reason="ReadFromPods", message=signals.problem
    )


def count_event(before: int, after: int, why: str) -> EventNote | None:
    """Return the Event of a changed count: one sentence with the reason."""
    if before == after:
        return None
    reason = "ScaledUp" if after > before else "ScaledDown"
    return EventNote(EventType.NORMAL, reason, f"Replicas {before} -> {after}: {why}.")


def mode_event(before: ScalingMode, after: ScalingMode) -> EventNote:
    """Return the Event of an edited mode."""
    text = f"scaling.mode {before.value} -> {after.value}."
    return EventNote(EventType.NORMAL, "ModeChanged", text)


def ignored_event(replicas: int) -> EventNote:
    """Return the Event of a `/scale` write that Auto ignores."""
    text = (
        f"spec.replicas {replicas} is ignored while scaling.mode is Auto; the law sets the count."
    )
    return EventNote(EventType.WARNING, REPLICAS_IGNORED, text)


@lru_cache(maxsize=64)
def rfc3339(seconds: float) -> str:
    """Return Unix seconds as RFC 3339 in UTC, to the second; all pools of a pass have the same."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
