"""`VariantSpec`: a kind of replica of a pool, with its own devices, placement or settings.

A pool with variants owns one InferencePool `<pool>-<variant>` for each, as a Deployment owns ReplicaSets.
"""

from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.devices import Accelerator, Parallelism
from penstock_api.types.fields import (
    ATOMIC_LIST,
    MAX_LABELS,
    MAX_REPLICAS,
    Image,
    LabelMap,
    Name,
    list_map,
    rule,
    rules,
)
from penstock_api.types.pod_template.container import MAX_ENV, EnvVar, ImagePullPolicy, Resources
from penstock_api.types.pod_template.template import Toleration
from penstock_api.types.runtime import GenerationSpec

MAX_VARIANTS = 8
MAX_CHILD_NAME = 52
"""Longest name of a pool, which `<pool>-<variant>` is too."""
VARIANT_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
VariantName = Annotated[str, Field(min_length=1, max_length=40, pattern=VARIANT_NAME)]
VariantReplicas = Annotated[int, Field(ge=0, le=MAX_REPLICAS)]


class VariantRuntime(ApiModel):
    """The runtime container of a variant."""

    image: Image | None = None
    """Image; defaults to the pool's."""
    image_pull_policy: ImagePullPolicy | None = None
    """As core/v1; defaults to the pool's."""


class VariantContainer(ApiModel):
    """Additions to the runtime container of a variant."""

    env: (
        Annotated[tuple[EnvVar, ...], Field(max_length=16, json_schema_extra=list_map("name"))]
        | None
    ) = None
    """Environment variables; one of the same name replaces the pool's."""
    resources: Resources | None = None
    """CPU and memory; each resource replaces the pool's."""


class VariantTemplate(ApiModel):
    """Placement of the pods of a variant, and additions to their container."""

    node_selector: LabelMap | None = None
    """Labels that a node must have, in addition to the pool's."""
    tolerations: (
        Annotated[tuple[Toleration, ...], Field(max_length=16, json_schema_extra=ATOMIC_LIST)]
        | None
    ) = None
    """Taints that the pods tolerate, instead of the pool's."""
    scheduler_name: Name | None = None
    """Scheduler of the pods; defaults to the pool's."""
    runtime_class_name: Name | None = None
    """RuntimeClass of the pods; defaults to the pool's."""
    priority_class_name: Name | None = None
    """PriorityClass of the pods; defaults to the pool's."""
    container: VariantContainer | None = None
    """Additions to the runtime container."""


class VariantSpec(ApiModel):
    """A kind of replica. What it leaves unset is as in the pool; objects and maps are merged, other lists replaced."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                "variant %s: minReplicas %s is above maxReplicas %s: lower minReplicas or raise maxReplicas",
                "self.name",
                "self.minReplicas",
                "self.maxReplicas",
            ),
        )
    )
    name: VariantName
    """Name of the variant; its InferencePool is named `<pool>-<name>`, which has at most 52 characters."""
    accelerator: Accelerator | None = None
    """Devices of each pod."""
    parallelism: Parallelism | None = None
    """Use of several devices by one replica."""
    runtime: VariantRuntime | None = None
    """Image of the runtime container."""
    generation: GenerationSpec | None = None
    """Settings of text generation, for task TextGeneration."""
    template: VariantTemplate | None = None
    """Placement of the pods, and additions to their container."""
    min_replicas: VariantReplicas | None = None
    """Replicas that the variant has at least, in every scaling mode; defaults to 0."""
    max_replicas: VariantReplicas | None = None
    """Replicas that the variant has at most; unlimited if unset."""


_OWN_KEYS = "self.template.nodeSelector"
_OWN_ENV = "self.template.container.env"
_UNITED_KEYS = (
    f"(has(v.template) && has(v.template.nodeSelector) && has(self.template) && has({_OWN_KEYS})"
    f" ? {_OWN_KEYS}.size() + v.template.nodeSelector.filter(k, !(k in {_OWN_KEYS})).size() : 0)"
)
_UNITED_ENV = (
    "(has(v.template) && has(v.template.container) && has(v.template.container.env)"
    f" && has(self.template) && has(self.template.container) && has({_OWN_ENV})"
    f" ? {_OWN_ENV}.size() + v.template.container.env.filter(e, !{_OWN_ENV}.exists(o, o.name == e.name)).size() : 0)"
)
_TOO_MANY = f"{_UNITED_KEYS} > {MAX_LABELS} || {_UNITED_ENV} > {MAX_ENV}"
TEMPLATE_UNION_RULE = rule(
    f"!has(self.variants) || !self.variants.exists(v, {_TOO_MANY})",
    f"variants %s: together with the pool's, template.nodeSelector has more than {MAX_LABELS} labels or"
    f" template.container.env more than {MAX_ENV} variables: remove some",
    f"self.variants.filter(v, {_TOO_MANY}).map(v, v.name)",
    at=".variants",
)
"""Rule of the pool: what it and a variant set is within the limits of a pool's template."""


class VariantStatus(ApiModel):
    """Replicas of a variant, and what the operator knows about them."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the variant."""
    replicas: Annotated[int, Field(ge=0, lt=2**31)]
    """Replicas that the pool requests of the variant."""
    ready_replicas: Annotated[int, Field(ge=0, lt=2**31)]
    """Pods that are Ready."""
    cap: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """Published batch cap, in rows."""
    rows_per_second_per_replica: (
        Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?$")] | None
    ) = None
    """Rows a second that one replica serves within the objective, as measured last; absent until a replica has been measured."""
    per_replica_hour: (
        Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?$")] | None
    ) = None
    """Price of an hour of one replica; absent while it is unknown."""
    reason: Annotated[str, Field(max_length=128)] | None = None
    """Reason of the variant's Ready condition."""
