"""`LabelSelector`: selection of objects by their labels, as meta/v1."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import (
    ATOMIC_LIST,
    ATOMIC_MAP,
    LabelKey,
    LabelMap,
    LabelValue,
    rule,
    rules,
)


class SelectorOperator(StrEnum):
    """As meta/v1."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorRequirement(ApiModel):
    """As meta/v1."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                "selector key %s with operator %s has %s",
                "self.key",
                "self.operator",
                "self.operator in ['In', 'NotIn'] ? 'no values: add some' : 'values: remove them'",
            )
        )
    )
    key: LabelKey
    """Key of the label."""
    operator: SelectorOperator
    """Comparison operator."""
    values: (
        Annotated[tuple[LabelValue, ...], Field(max_length=64, json_schema_extra=ATOMIC_LIST)]
        | None
    ) = None
    """Values, for In and NotIn."""


class LabelSelector(ApiModel):
    """As meta/v1; empty selects everything."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    match_labels: LabelMap | None = None
    """Labels that must match."""
    match_expressions: (
        Annotated[
            tuple[SelectorRequirement, ...], Field(max_length=16, json_schema_extra=ATOMIC_LIST)
        ]
        | None
    ) = None
    """Requirements that must all be met."""
