"""Conditions, and how they merge: a transition time moves only when the status moves."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.limits import Generation

MAX_MESSAGE = 2048


class ConditionStatus(StrEnum):
    """The three values of a Kubernetes condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One Kubernetes condition (meta/v1, `Condition`); the reason is never empty."""

    model_config = ConfigDict(
        json_schema_extra={
            "required": ["lastTransitionTime", "message", "reason", "status", "type"]
        }
    )
    type: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Z][A-Za-z0-9]*$")]
    """What the condition is about, in CamelCase."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Z][A-Za-z0-9]*$")]
    """Why, in CamelCase, for programs."""
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""
    """Why, for people."""
    observed_generation: Generation = 0
    """The generation of the spec that it was judged by."""
    last_transition_time: Annotated[
        str,
        Field(max_length=32, json_schema_extra={"format": "date-time"}),
    ] = "1970-01-01T00:00:00Z"
    """When its status last changed."""


def condition(
    type: str,
    status: ConditionStatus | bool | Literal["Unknown"],  # noqa: FBT001  the value itself, not a switch
    reason: str,
    message: str = "",
) -> Condition:
    """Return a condition without times; `merge` gives it those."""
    value = ConditionStatus(str(status))
    return Condition(type=type, status=value, reason=reason, message=message[:MAX_MESSAGE])


def merge(
    held: Sequence[Condition], wanted: Iterable[Condition], generation: int, now: str
) -> tuple[Condition, ...]:
    """Return `wanted` in its own order, each keeping its held transition time unless its status moved.

    `now` is RFC 3339 in UTC. Held conditions of types that are not wanted any more are dropped.
    """
    before = {one.type: one for one in held}

    def dated(one: Condition) -> Condition:
        old = before.get(one.type)
        moved = old is None or old.status != one.status
        time = now if moved or old is None else old.last_transition_time
        if old is not None and _same(old, one) and old.observed_generation == generation:
            return old
        return one.model_copy(
            update={"observed_generation": generation, "last_transition_time": time}
        )

    return tuple(dated(one) for one in wanted)


def _same(old: Condition, new: Condition) -> bool:
    return (old.status, old.reason, old.message) == (new.status, new.reason, new.message)
