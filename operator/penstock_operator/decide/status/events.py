"""Events for the differences between the stored and the desired status of a pool."""

from collections.abc import Iterator, Sequence

from penstock_api.conditions import Condition, ConditionStatus
from penstock_operator.decide.actions import EventNote, EventType
from penstock_operator.decide.manifests.replica_conflict import CONTESTED
from penstock_operator.decide.manifests.revision import revision_name
from penstock_operator.decide.pool_outcome import BUDGETED_FIELD, PoolOutcome
from penstock_operator.decide.quota_ledger import BUDGET_LIMITED
from penstock_operator.decide.scaling.report.conditions import LAW_FAILED
from penstock_operator.decide.status.conditions.loading import MODEL_LOADING
from penstock_operator.decide.status.conditions.progress import PROGRESSING, ROLLING_OUT
from penstock_operator.decide.status.conditions.ready import READY, SCALED_TO_ZERO

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
_WARNED = (READY, PROGRESSING, "PolicyApplied")
"""Conditions whose change to a new failure reason is reported as an Event."""
_WITHOUT_EVENT = (
    "ReplicasUnavailable", MODEL_LOADING, SCALED_TO_ZERO, "PoliciesNotReadable", "Settled", "Blocked",
)  # fmt: skip
"""Reasons without an Event: part of every change, reported by another one, or not about a single pool."""


def pool_events(outcome: PoolOutcome, conditions: Sequence[Condition]) -> tuple[EventNote, ...]:
    """Return the Events of this pass, those of the scaling package included."""
    return (
        *outcome.scaling.events,
        *_bounds(outcome),
        *_template(outcome),
        *_warnings(outcome, conditions),
        *_short(outcome, conditions),
        *_completions(outcome, conditions),
    )


def _bounds(outcome: PoolOutcome) -> Iterator[EventNote]:
    stored = outcome.view.pool.status.bounded or ()
    before = {bound.field: bound for bound in stored if bound.field != BUDGETED_FIELD}
    after = {bound.field: bound for bound in outcome.effective.bounded}
    for field, bound in after.items():
        if before.get(field) != bound:
            message = (
                f"{field} {bound.asked} is limited to {bound.granted} by policy {bound.policy}"
            )
            yield EventNote(EventType.NORMAL, "Bounded", message)
    for field in before.keys() - after.keys():
        message = f"{field} is no longer limited by policy {before[field].policy}"
        yield EventNote(EventType.NORMAL, "BoundLifted", message)


def _template(outcome: PoolOutcome) -> Iterator[EventNote]:
    if outcome.pinned.adopted and outcome.pinned.template is not None:
        message = f"rolling out template {revision_name(outcome.pinned.template)}"
        yield EventNote(EventType.NORMAL, "TemplateAdopted", message)
    if outcome.rollout.gave_up and outcome.rollout.why:
        message = f"this rollout replaces pods without a surge: {outcome.rollout.why}"
        yield EventNote(EventType.NORMAL, "ReplacingWithoutSurge", message)


def _warnings(outcome: PoolOutcome, conditions: Sequence[Condition]) -> Iterator[EventNote]:
    stored = outcome.view.pool.status.conditions or ()
    before = {item.reason for item in stored if _is_failure(item)}
    after = {item.reason: item for item in reversed(conditions) if _is_failure(item)}
    for reason in reversed(after):
        if reason not in before:
            yield EventNote(EventType.WARNING, reason, after[reason].message)


def _short(outcome: PoolOutcome, conditions: Sequence[Condition]) -> Iterator[EventNote]:
    stored = outcome.view.pool.status.conditions or ()
    before = {item.reason for item in stored if _is_short(item)}
    for item in conditions:
        if _is_short(item) and item.reason not in before:
            yield EventNote(EventType.WARNING, item.reason, item.message)


def _completions(outcome: PoolOutcome, conditions: Sequence[Condition]) -> Iterator[EventNote]:
    """Report that the pool became Ready, first or again, and that no pod runs an older template any more."""
    before = {item.type: item for item in outcome.view.pool.status.conditions or ()}
    after = {item.type: item for item in conditions}
    was, ready = before.get(READY), after[READY]
    if was is not None and was.status is FALSE and ready.status is TRUE:
        yield EventNote(EventType.NORMAL, "BecameReady", ready.message)
    was, progress = before.get(PROGRESSING), after[PROGRESSING]
    rolled = was is not None and was.reason == ROLLING_OUT and not outcome.rollout.outdated
    if rolled and not _is_failure(progress):
        message = f"every pod runs template {revision_name(outcome.pinned.template or {})}"
        yield EventNote(EventType.NORMAL, "RolloutComplete", message)


def _is_short(item: Condition) -> bool:
    return item.type == BUDGET_LIMITED and item.status is TRUE


def _is_failure(item: Condition) -> bool:
    if item.status is not FALSE or item.reason in _WITHOUT_EVENT:
        return False
    return item.type in _WARNED or item.reason in {CONTESTED, LAW_FAILED}
