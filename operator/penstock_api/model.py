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


class Task(StrEnum):
    """What a model does, and so which protocols serve it."""

    TENSOR = "Tensor"
    TEXT_GENERATION = "TextGeneration"
    EMBEDDING = "Embedding"
    CLASSIFICATION = "Classification"


class ClaimSource(ApiModel):
    """A program or a model's directory on a claim of the pool's namespace, mounted read-only."""

    claim_name: Name
    """Name of the PersistentVolumeClaim."""
    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            pattern=r"^[^/].*$",
            json_schema_extra=rules(
                rule(
                    "!self.split('/').exists(p, p == '..')",
                    "path %s leaves the volume: write a relative path without ..",
                    "self",
                )
            ),
        ),
    ]
    """Relative path inside the volume: a `torch.export` program (`.pt2`), or for any task but Tensor a Hugging Face
    directory (`config.json`, `tokenizer.json`, safetensors); `.` is the volume itself."""


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


_TASK = "(has({0}.task) ? {0}.task : 'Tensor')"
_CLAIM = "self.source.persistentVolumeClaim"


class ModelSpec(ApiModel):
    """The model that the pool serves."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"has({_CLAIM}) || {_TASK.format('self')} == 'Tensor'",
                "task %s needs a model directory: set source.type to PersistentVolumeClaim, or leave task out",
                _TASK.format("self"),
                at=".task",
            ),
            rule(
                f"!has({_CLAIM}) || {_CLAIM}.path.endsWith('.pt2') == ({_TASK.format('self')} == 'Tensor')",
                "path %s does not suit task %s: a .pt2 program is for task Tensor, a directory for any other",
                f"{_CLAIM}.path",
                _TASK.format("self"),
                at=".source.persistentVolumeClaim.path",
            ),
            rule(
                f"{_TASK.format('self')} == {_TASK.format('oldSelf')}",
                "task is immutable: was %s, got %s; create another pool",
                _TASK.format("oldSelf"),
                _TASK.format("self"),
                at=".task",
            ),
        )
    )
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
    task: Task | None = None
    """What it does: rows of any tensors, text, embeddings or classes of texts; unset, Tensor; immutable."""
    source: ModelSource
    """Where it comes from."""
