"""Conditions, and how they merge: a transition time moves only when the status moves."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from penstock_api.base import ApiModel


class ConditionStatus(StrEnum):
    """The three values of a Kubernetes condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One Kubernetes condition (meta/v1, `Condition`); the reason is never empty."""

    type: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    status: ConditionStatus
    reason: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    message: Annotated[str, Field(max_length=2048)] = ""
    observed_generation: Annotated[int, Field(ge=0, lt=2**63)] = 0
    last_transition_time: Annotated[
        str,
        Field(max_length=32, json_schema_extra={"format": "date-time"}),
    ] = "1970-01-01T00:00:00Z"


def condition(
    type: str, status: bool | Literal["Unknown"], reason: str, message: str = ""
) -> Condition:
    """Return a condition without times; `merge` gives it those."""
    value = ConditionStatus.UNKNOWN if status == "Unknown" else ConditionStatus(str(bool(status)))
    return Condition(type=type, status=value, reason=reason, message=message[:2048])


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
        return one.model_copy(
            update={"observed_generation": generation, "last_transition_time": time}
        )

    return tuple(dated(one) for one in wanted)
