"""Status conditions, and `merge`, which changes a transition time only if the status changes."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.pod_contract import Generation

MAX_MESSAGE = 2048
UNOBSERVED = -1
"""`status.observedGeneration` of an object that no operator has observed: kstatus counts an absent one as current."""
ObservedGeneration = Annotated[int, Field(ge=UNOBSERVED, lt=2**53)]


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
    """Type of the condition, in CamelCase."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Z][A-Za-z0-9]*$")]
    """Machine-readable reason in CamelCase."""
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""
    """Human-readable explanation."""
    observed_generation: Generation = 0
    """Generation of the spec that the condition is based on."""
    last_transition_time: Annotated[
        str,
        Field(max_length=32, json_schema_extra={"format": "date-time"}),
    ] = "1970-01-01T00:00:00Z"
    """Time of the last change of the status."""


def condition(
    type: str,
    status: ConditionStatus | bool | Literal["Unknown"],  # noqa: FBT001  the value itself, not a switch
    reason: str,
    message: str = "",
) -> Condition:
    """Return a condition without times, which `merge` sets."""
    return _condition(type, str(status), reason, message[:MAX_MESSAGE])


@lru_cache(maxsize=4096)
def _condition(type: str, status: str, reason: str, message: str) -> Condition:
    """Return the condition; the conditions of thousands of pools share few texts."""
    return Condition(type=type, status=ConditionStatus(status), reason=reason, message=message)


def merge(
    stored: Sequence[Condition], desired: Iterable[Condition], generation: int, now: str
) -> tuple[Condition, ...]:
    """Return `desired` in its order, each with its stored transition time unless its status changed.

    `now` is RFC 3339 in UTC. Stored conditions of other types are dropped.
    """
    before = {condition.type: condition for condition in stored}

    def dated(new: Condition) -> Condition:
        old = before.get(new.type)
        changed = old is None or old.status != new.status
        time = now if changed or old is None else old.last_transition_time
        if old is not None and _same(old, new) and old.observed_generation == generation:
            return old
        return new.model_copy(
            update={"observed_generation": generation, "last_transition_time": time}
        )

    return tuple(dated(condition) for condition in desired)


def _same(old: Condition, new: Condition) -> bool:
    return (old.status, old.reason, old.message) == (new.status, new.reason, new.message)
