"""What is said about a decision: conditions, Events, status. Pure.

Texts stay the same while their cause does, so that an unchanged pool writes nothing.
"""

from datetime import UTC, datetime
from typing import Literal

from penstock_api.conditions import Condition, condition
from penstock_api.types.live import ScalingMode
from penstock_operator.decide.actions import EventNote, EventType
from penstock_operator.decide.scaling.failure import LawFailure
from penstock_operator.decide.scaling.law import Decision
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import PoolSignals, SignalSource

REPLICAS_IGNORED = "ReplicasIgnored"
HELD = "Held"
LAW_FAILED = "LawFailed"


def scaling_condition(
    effective: EffectiveSpec, *, ignored: bool, blind: bool, failure: LawFailure | None = None
) -> Condition:
    """Return the condition `Scaling`: whether the law moves the count, else who decides it.

    `ignored`: spec.replicas was edited in Auto; `blind`: Ready pods are there, but no signals; `failure`: the law raised.
    """
    law, mode = effective.law, effective.scaling_mode
    status: bool | Literal["Unknown"] = False
    if mode is ScalingMode.MANUAL:
        reason, text = "Manual", "scaling.mode is Manual: spec.replicas decides the count"
    elif mode is ScalingMode.HOLD:
        reason, text = HELD, "scaling.mode is Hold: the count is frozen; the law only records"
    elif mode is ScalingMode.RECOMMEND:
        reason = "Recommending"
        text = "scaling.mode is Recommend: spec.replicas decides; desiredReplicas is the law's wish"
    elif failure is not None:
        reason = LAW_FAILED
        text = (
            f"{failure.law} failed ({failure.summary}): the replica count and the batch cap stay as they are; the law is"
            " tried again at every tick: please report the operator's log line of it"
        )
    elif ignored:
        status, reason = True, REPLICAS_IGNORED
        text = (
            "spec.replicas was changed, but scaling.mode is Auto and the law decides the count:"
            " use minReplicas and maxReplicas, or mode Manual"
        )
    elif blind:
        reason, text = "SignalsAbsent", "there are no signals: the count holds and never falls"
    else:
        status, reason = True, "Acting"
        bounds = f"{law.min_replicas} and {law.max_replicas}"
        text = f"{effective.algorithm} decides the count between {bounds}"
    return condition("Scaling", status, reason, text)


def metrics_condition(
    decision: Decision, signals: PoolSignals, ready_pods: int, replicas: int
) -> Condition:
    """Return the condition `MetricsAvailable`: where signals come from, or why there are none.

    `replicas` is what the Deployment asks for: with none there is nothing to know.
    """
    if ready_pods == 0:
        text = "no pod is Ready, so there is nothing to measure"
        status: bool | Literal["Unknown"] = False if replicas else "Unknown"
        return condition("MetricsAvailable", status, "NoReadyPods", text)
    if not decision.metrics_available or signals.source is SignalSource.NONE:
        text = signals.problem or (
            "more than half of the Ready pods have no sample under 10 s old,"
            " or had none within the last 3 ticks"
        )
        return condition("MetricsAvailable", status=False, reason="NoSignals", message=text)
    if decision.observations.off_curve is not None:
        which = "fewer" if decision.observations.off_curve < 0 else "more"
        text = (
            f"busy pods serve over 10 % {which} rows than their service curve says, so capacity is not known well:"
            " see whether others compute on their devices, and how long pods pause between batches"
        )
        return condition("MetricsAvailable", status=True, reason="CurveInconsistent", message=text)
    if signals.source is SignalSource.PROMETHEUS:
        return condition("MetricsAvailable", status=True, reason="FromPrometheus")
    return condition(
        "MetricsAvailable", status=True, reason="ReadFromPods", message=signals.problem
    )


def count_event(before: int, after: int, why: str) -> EventNote | None:
    """Return the Event of a moved count: one sentence with the why."""
    if before == after:
        return None
    reason = "ScaledUp" if after > before else "ScaledDown"
    return EventNote(EventType.NORMAL, reason, f"Replicas {before} -> {after}: {why}.")


def mode_event(before: ScalingMode, after: ScalingMode) -> EventNote:
    """Return the Event of an edited mode: who decides the count is somebody else now."""
    text = f"scaling.mode {before.value} -> {after.value}."
    return EventNote(EventType.NORMAL, "ModeChanged", text)


def ignored_event(replicas: int) -> EventNote:
    """Return the Event of a `/scale` write that Auto ignores."""
    text = f"spec.replicas {replicas} is ignored while scaling.mode is Auto; the law decides."
    return EventNote(EventType.WARNING, REPLICAS_IGNORED, text)


def rfc3339(seconds: float) -> str:
    """Return Unix seconds as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
