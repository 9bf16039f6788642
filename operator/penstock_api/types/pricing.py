"""`Pricing`: what an hour of a resource costs, by the labels of the node; the cost of pools follows from it."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import Label, LabelMap, list_map

_PRICE = r"^[0-9]{1,9}(\.[0-9]{1,6})?$"


def _price(value: int | str) -> int | str:
    if re.fullmatch(_PRICE, str(value)) is None:
        raise ValueError(f"must be a decimal number that is not negative, got {str(value)!r}")
    return value


PerHour = Annotated[
    int | str,
    AfterValidator(_price),
    Field(
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            "pattern": _PRICE,
            "maxLength": 16,
            "minimum": 0,
            "maximum": 999_999_999,
        }
    ),
]
"""An integer, or a string with up to six decimals, because the API has no floats; never negative."""

PricedResource = Annotated[
    str,
    Field(
        min_length=3,
        max_length=128,
        pattern=r"^(cpu|memory|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$",
    ),
]


class ResourcePrice(ApiModel):
    """Price of one resource on the nodes with some labels."""

    name: Label
    """Name of the price, which the status of pools refers to."""
    resource_name: PricedResource
    """Resource of the device plugin, such as nvidia.com/gpu, or cpu or memory."""
    node_selector: LabelMap | None = None
    """Labels that the node must have; defaults to none. Of several prices that apply, the one with the most labels counts."""
    per_hour: PerHour
    """Price of an hour of one device, one core (cpu) or one GiB (memory); with decimals as a string such as "2.50"."""


class Pricing(ApiModel):
    """Prices of resources in one currency. A resource without a price has an unknown cost, which pools report."""

    currency: Annotated[str, Field(min_length=3, max_length=3, pattern="^[A-Z]{3}$")]
    """Code of the currency by ISO 4217, such as EUR."""
    prices: Annotated[
        tuple[ResourcePrice, ...],
        Field(min_length=1, max_length=32, json_schema_extra=list_map("name")),
    ]
    """Prices by resource and node labels."""
