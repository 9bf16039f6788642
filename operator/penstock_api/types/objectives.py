"""Latency objectives of a pool, live: a policy can default them."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import (
    list_map,
)


class ObjectiveMetric(StrEnum):
    """Latency that an objective limits."""

    REQUEST_LATENCY = "RequestLatency"
    """From arrival to the end of a request."""
    TIME_TO_FIRST_TOKEN = "TimeToFirstToken"  # noqa: S105  a name
    """From arrival to the first token, for pools that generate text."""
    TIME_PER_OUTPUT_TOKEN = "TimePerOutputToken"  # noqa: S105  a name
    """Mean time between tokens after the first, for pools that generate text."""


DEFAULT_PERCENT = 99
_PERCENT = r"^[5-9][0-9](\.[0-9])?$"


def _shortest(percent: int | str) -> int | str:
    """Return a percentage as an integer if it is one, else as a decimal string."""
    text = str(percent)
    if re.fullmatch(_PERCENT, text) is None:
        raise ValueError(f"must be 50 to 99.9 with at most one decimal, got {text!r}")
    whole, _, tenths = text.partition(".")
    return int(whole) if tenths in ("", "0") else text


ObjectivePercent = Annotated[
    int | str,
    AfterValidator(_shortest),
    Field(
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            "pattern": _PERCENT,
            "maxLength": 8,
            "minimum": 50,
            "maximum": 99,
        }
    ),
]
"""From 50 to 99.9: an integer, or a string with one decimal, because the API has no floats."""


class Objective(ApiModel):
    """A latency objective: the law limits batches, or steps of generation, and computes the replica count to meet it."""

    metric: ObjectiveMetric
    """Latency that is measured."""
    milliseconds: Annotated[int, Field(ge=1, le=3_600_000)]
    """Upper limit of the latency."""
    percent: ObjectivePercent | None = None
    """Percentage of requests that must be within the limit: 50 to 99.9, with a decimal as a string such as "99.9"; defaults to 99."""


Objectives = Annotated[
    tuple[Objective, ...], Field(max_length=4, json_schema_extra=list_map("metric"))
]
