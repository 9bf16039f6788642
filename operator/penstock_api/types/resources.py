"""Extended resources, as device plugins name them."""

from typing import Annotated

from pydantic import Field

Resource = Annotated[
    str,
    Field(
        min_length=3,
        max_length=128,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    ),
]
