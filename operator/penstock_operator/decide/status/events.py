"""Events for what changed between the status that is held and the one that is wanted."""

from collections.abc import Iterator, Sequence

from penstock_api.conditions import Condition, ConditionStatus
from penstock_operator.decide.actions import EventNote, EventType
from penstock_operator.decide.ledger import BUDGET_LIMITED
from penstock_operator.decide.manifests.replica_conflict import CONTESTED
from penstock_operator.decide.manifests.revision import revision_name
from penstock_operator.decide.pool_outcome import BUDGETED_FIELD, PoolOutcome
from penstock_operator.decide.scaling.report.conditions import LAW_FAILED

_WARNED = ("Ready", "Progressing", "PolicyApplied")
"""Conditions whose turn to a new bad reason is worth an Event."""
_PASSING = ("ReplicasUnavailable", "PoliciesNotReadable", "Settled", "Blocked")
"""Reasons that every start or end of a step passes through, that another condition tells, or that concern no single pool."""


def pool_events(found: PoolOutcome, conditions: Sequence[Condition]) -> tuple[EventNote, ...]:
    """Return what is to be told about this pass, the scaling room's own Events included."""
    return (
        *found.outcome.events,
        *_bounds(found),
        *_template(found),
        *_warnings(found, conditions),
        *_short(found, conditions),
    )


def _bounds(found: PoolOutcome) -> Iterator[EventNote]:
    held = found.view.pool.status.bounded or ()
    before = {one.field: one for one in held if one.field != BUDGETED_FIELD}
    after = {one.field: one for one in found.effective.bounded}
    for field, one in after.items():
        if before.get(field) != one:
            message = f"{field} {one.asked} is bounded to {one.granted} by policy {one.policy}"
            yield EventNote(EventType.NORMAL, "Bounded", message)
    for field in before.keys() - after.keys():
        message = f"{field} is no longer bounded by policy {before[field].policy}"
        yield EventNote(EventType.NORMAL, "BoundLifted", message)


def _template(found: PoolOutcome) -> Iterator[EventNote]:
    if found.pinned.adopted and found.pinned.template is not None:
        message = f"rolling out template {revision_name(found.pinned.template)}"
        yield EventNote(EventType.NORMAL, "TemplateAdopted", message)
    if found.rollout.gave_up and found.rollout.why:
        message = f"this rollout replaces pods without a surge: {found.rollout.why}"
        yield EventNote(EventType.NORMAL, "ReplacingWithoutSurge", message)


def _warnings(found: PoolOutcome, conditions: Sequence[Condition]) -> Iterator[EventNote]:
    held = {one.reason for one in found.view.pool.status.conditions or () if _alarming(one)}
    news = {one.reason: one for one in reversed(conditions) if _alarming(one)}
    for reason in reversed(news):
        if reason not in held:
            yield EventNote(EventType.WARNING, reason, news[reason].message)


def _short(found: PoolOutcome, conditions: Sequence[Condition]) -> Iterator[EventNote]:
    held = found.view.pool.status.conditions or ()
    known = {one.reason for one in held if one.type == BUDGET_LIMITED and _true(one)}
    for one in conditions:
        if one.type == BUDGET_LIMITED and _true(one) and one.reason not in known:
            yield EventNote(EventType.WARNING, one.reason, one.message)


def _true(one: Condition) -> bool:
    return one.status is ConditionStatus.TRUE


def _alarming(one: Condition) -> bool:
    told = one.type in _WARNED or one.reason in {CONTESTED, LAW_FAILED}
    return told and one.status is ConditionStatus.FALSE and one.reason not in _PASSING
