"""`InferencePool`: the spec a user writes."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.live import MAX_REPLICAS, Batching, Objectives, Scaling
from penstock_api.status import PoolStatus
from penstock_api.template import Name, Path, PodTemplate, rule, rules

Image = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\s]+$")]


class SourceType(StrEnum):
    """Where a model comes from."""

    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    MODULE = "Module"


class ClaimSource(ApiModel):
    """A `torch.export` program on a claim of the pool's namespace, mounted read-only."""

    claim_name: Name
    path: Annotated[
        str,
        Field(min_length=1, max_length=512, pattern=r"^[^/].*\.pt2$"),
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
    """`package.module:function`, called with `arguments`; returns a `penstock_runtime.models.base.Model`
    or a `torch.nn.Module`."""
    arguments: (
        Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=64)] | None
    ) = None
    """Passed to the factory as keyword arguments, all strings."""


_TYPE_IFF_MEMBER = [
    rule(
        f"has(self.{member}) == (self.type == '{kind}')",
        f"'source.type ' + self.type + ': set {member} if and only if type is {kind}'",
    )
    for kind, member in (
        ("PersistentVolumeClaim", "persistentVolumeClaim"),
        ("Module", "module"),
    )
]


class ModelSource(ApiModel):
    """Where the model comes from: a union discriminated by `type`."""

    model_config = {
        "json_schema_extra": rules(
            *_TYPE_IFF_MEMBER,
            rule(
                "self.type == oldSelf.type",
                "'source.type is immutable: was ' + oldSelf.type + ', got ' + self.type"
                " + '; create another pool'",
            ),
        )
    }
    type: SourceType
    persistent_volume_claim: ClaimSource | None = None
    module: ModuleSource | None = None


class ModelSpec(ApiModel):
    """The model that the pool serves."""

    name: (
        Annotated[
            str,
            Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"),
        ]
        | None
    ) = None
    """Served name; unset, the pool's own."""
    source: ModelSource


class ImagePullPolicy(StrEnum):
    """As core/v1."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class RuntimeSpec(ApiModel):
    """The runtime container."""

    image: Image | None = None
    """Unset: the operator's default image at the pool's first render, pinned from then on."""
    image_pull_policy: ImagePullPolicy | None = None


class Accelerator(ApiModel):
    """What one replica computes on. Count 0 means CPU."""

    resource_name: Annotated[
        str,
        Field(
            min_length=3,
            max_length=128,
            pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        ),
    ]
    count: Annotated[int, Field(ge=0, le=16)]


class RolloutStrategy(StrEnum):
    """Whether a rollout may use one replica more (Surge) or gives up one first (Replace)."""

    SURGE = "Surge"
    REPLACE = "Replace"


class Rollout(ApiModel):
    """How a template change reaches the pods."""

    strategy: RolloutStrategy | None = None


class Drain(ApiModel):
    """How long a pod that is told to stop may finish its work."""

    deadline_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None


class PoolSpec(ApiModel):
    """What the user wants. Built-in defaults live in `penstock_operator.decide.effective`."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    model: ModelSpec
    runtime: RuntimeSpec | None = None
    accelerator: Accelerator | None = None
    rollout: Rollout | None = None
    drain: Drain | None = None
    template: PodTemplate | None = None
    objectives: Objectives | None = None
    batching: Batching | None = None
    scaling: Scaling | None = None


_NEW_MODE = "(has(self.spec.scaling) && has(self.spec.scaling.mode) ? self.spec.scaling.mode : 'Manual')"
_OLD_MODE = _NEW_MODE.replace("self.", "oldSelf.")
_READY = "(has(self.status) && has(self.status.readyReplicas) ? self.status.readyReplicas : 0)"

NAME_RULE = rule(
    "self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "'metadata.name ' + self.metadata.name + ' must be at most 52 characters, begin with a letter and'"
    " + ' hold only lower-case letters, digits and dashes: choose a shorter or plainer name'",
)
LEAVING_AUTO_RULE = rule(
    f"!({_OLD_MODE} in ['Auto', 'Hold'] && {_NEW_MODE} in ['Manual', 'Recommend'])"
    f" || self.spec.replicas != oldSelf.spec.replicas || self.spec.replicas >= {_READY}",
    f"'spec.scaling.mode ' + {_NEW_MODE} + ' would shrink the pool from ' + string({_READY})"
    " + ' ready replicas to spec.replicas ' + string(self.spec.replicas)"
    " + ': set spec.replicas in the same edit, or use mode Hold to freeze the live count'",
)


class InferencePool(ApiModel):
    """An `InferencePool` object's spec and status."""

    model_config = {"json_schema_extra": rules(NAME_RULE, LEAVING_AUTO_RULE)}
    spec: PoolSpec
    status: PoolStatus | None = None
