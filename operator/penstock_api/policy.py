"""`InferencePolicy`: what admins say about the pools of the namespaces it selects."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.conditions import Condition
from penstock_api.limits import BatchSize, QueueDepth
from penstock_api.live import BatchingDefaults, Objectives, Replicas, ScalingDefaults
from penstock_api.template import LABEL_KEY, LabelMap, LabelValue, Name, list_map, rule, rules


class SelectorOperator(StrEnum):
    """As meta/v1."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorRequirement(ApiModel):
    """As meta/v1."""

    key: Annotated[str, Field(min_length=1, max_length=316, pattern=LABEL_KEY)]
    operator: SelectorOperator
    values: (
        Annotated[
            tuple[LabelValue, ...],
            Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
        ]
        | None
    ) = None


class LabelSelector(ApiModel):
    """As meta/v1; empty selects everything."""

    match_labels: LabelMap | None = None
    match_expressions: (
        Annotated[
            tuple[SelectorRequirement, ...],
            Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
        ]
        | None
    ) = None


class PolicyDefaults(ApiModel):
    """Values for fields that a pool leaves unset; live fields only, never a mode."""

    objectives: Objectives | None = None
    scaling: ScalingDefaults | None = None
    batching: BatchingDefaults | None = None


class ReplicasBound(ApiModel):
    """Upper bound of replicas."""

    max: Replicas


class BatchSizeBound(ApiModel):
    """Upper bound of the batch cap, in rows."""

    max: BatchSize


class QueueDepthBound(ApiModel):
    """Upper bound of waiting requests a pod."""

    max: QueueDepth


_NAMES = {"x-kubernetes-list-type": "set"}


class TemplateBounds(ApiModel):
    """What pod templates may say. An absent list bounds nothing; an empty one allows nothing."""

    allowed_images: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=512)], ...],
            Field(max_length=64, json_schema_extra=_NAMES),
        ]
        | None
    ) = None
    """Prefixes of the full image reference."""
    service_account_names: (
        Annotated[tuple[Name, ...], Field(max_length=64, json_schema_extra=_NAMES)] | None
    ) = None
    priority_class_names: (
        Annotated[tuple[Name, ...], Field(max_length=64, json_schema_extra=_NAMES)] | None
    ) = None


class Bounds(ApiModel):
    """Of all matching policies the tightest bound wins."""

    replicas: ReplicasBound | None = None
    batch_size: BatchSizeBound | None = None
    queue_depth: QueueDepthBound | None = None
    template: TemplateBounds | None = None


class Prometheus(ApiModel):
    """A Prometheus server to read signals from."""

    url: Annotated[
        str,
        Field(min_length=8, max_length=512, pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$"),
    ]


class Metrics(ApiModel):
    """Where signals come from."""

    prometheus: Prometheus | None = None


class PolicySpec(ApiModel):
    """What the admin wants for the pools that the selectors match."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "!(has(self.poolSelector) && has(self.bounds))",
                "'spec.poolSelector cannot go with spec.bounds, since tenants write pool labels:"
                " select by namespaceSelector, or move the bounds to a policy of their own'",
            )
        )
    }
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] | None = None
    """Orders defaults and metrics only; unset is 0; the highest wins, per field."""
    namespace_selector: LabelSelector | None = None
    """Unset selects every namespace."""
    pool_selector: LabelSelector | None = None
    defaults: PolicyDefaults | None = None
    bounds: Bounds | None = None
    metrics: Metrics | None = None


class PolicyStatus(ApiModel):
    """What the operator found."""

    observed_generation: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    matched_pools: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    conditions: (
        Annotated[tuple[Condition, ...], Field(max_length=8, json_schema_extra=list_map("type"))]
        | None
    ) = None


class InferencePolicy(ApiModel):
    """An `InferencePolicy` object's spec and status."""

    spec: PolicySpec
    status: PolicyStatus | None = None
