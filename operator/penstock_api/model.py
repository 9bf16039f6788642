"""What a pool serves: a model and where it comes from."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.fields import Name, rule, rules

_PYTHON_NAME = "^[A-Za-z_][A-Za-z0-9_]*$"


class SourceType(StrEnum):
    """Where a model comes from."""

    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    MODULE = "Module"


class ClaimSource(ApiModel):
    """A `torch.export` program on a claim of the pool's namespace, mounted read-only."""

    claim_name: Name
    """Name of the PersistentVolumeClaim."""
    path: Annotated[
        str,
        Field(
            min_length=5,
            max_length=512,
            pattern=r"^[^/].*\.pt2$",
            json_schema_extra=rules(
                rule(
                    "!self.split('/').exists(p, p == '..')",
                    "path %s leaves the volume: write a relative path without ..",
                    "self",
                )
            ),
        ),
    ]
    """Relative path of the `.pt2` file inside the volume."""


class ModuleSource(ApiModel):
    """A Python factory in the runtime image or on its PYTHONPATH."""

    factory: Annotated[
        str,
        Field(
            min_length=3,
            max_length=256,
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        ),
    ]
    """`package.module:function` in the runtime image, called with `arguments`."""
    arguments: (
        Annotated[
            dict[str, Annotated[str, Field(max_length=1024)]],
            Field(
                max_length=64,
                json_schema_extra=rules(
                    rule(
                        f"self.all(k, k.matches('{_PYTHON_NAME}'))",
                        "arguments %s are no Python names: write letters, digits and underscores",
                        f"self.filter(k, !k.matches('{_PYTHON_NAME}'))",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """Passed to the factory as keyword arguments, all strings."""


_TYPE_IFF_MEMBER = [
    rule(
        f"has(self.{member}) == (self.type == '{kind}')",
        f"source.type is %s: set {member} if and only if type is {kind}",
        "self.type",
    )
    for kind, member in (
        ("PersistentVolumeClaim", "persistentVolumeClaim"),
        ("Module", "module"),
    )
]


class ModelSource(ApiModel):
    """Where the model comes from: a union discriminated by `type`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *_TYPE_IFF_MEMBER,
            rule(
                "self.type == oldSelf.type",
                "source.type is immutable: was %s, got %s; create another pool",
                "oldSelf.type",
                "self.type",
            ),
        )
    )
    type: SourceType
    """Which member is set; immutable."""
    persistent_volume_claim: ClaimSource | None = None
    """For type PersistentVolumeClaim."""
    module: ModuleSource | None = None
    """For type Module."""


class ModelSpec(ApiModel):
    """The model that the pool serves."""

    name: (
        Annotated[
            str,
            Field(
                min_length=1, max_length=128, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
            ),
        ]
        | None
    ) = None
    """Served name; unset, the pool's own."""
    source: ModelSource
    """Where it comes from."""
