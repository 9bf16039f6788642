"""`InferencePolicy`: what admins say about the pools of the namespaces it selects."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.conditions import Condition
from penstock_api.limits import BatchSize, Generation, QueueDepth
from penstock_api.types.container import KeySelector
from penstock_api.types.fields import (
    ATOMIC_LIST,
    ATOMIC_MAP,
    SET_LIST,
    Count,
    Image,
    LabelKey,
    LabelMap,
    LabelValue,
    Name,
    list_map,
    rule,
    rules,
)
from penstock_api.types.live import BatchingDefaults, Objectives, Replicas, ScalingDefaults, Weight
from penstock_api.types.resources import Resource
from penstock_api.types.schedules import Schedule
from penstock_api.types.volumes import LocalObjectReference


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
                "self.operator in ['In', 'NotIn'] ? 'no values: add some' : 'values: drop them'",
            )
        )
    )
    key: LabelKey
    """The label's key."""
    operator: SelectorOperator
    """How it compares."""
    values: (
        Annotated[tuple[LabelValue, ...], Field(max_length=64, json_schema_extra=ATOMIC_LIST)]
        | None
    ) = None
    """For In and NotIn."""


class LabelSelector(ApiModel):
    """As meta/v1; empty selects everything."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    match_labels: LabelMap | None = None
    """Labels that must be equal."""
    match_expressions: (
        Annotated[
            tuple[SelectorRequirement, ...], Field(max_length=16, json_schema_extra=ATOMIC_LIST)
        ]
        | None
    ) = None
    """Requirements that must hold, all of them."""


class PolicyDefaults(ApiModel):
    """Values for fields that a pool leaves unset; live fields only, never a mode."""

    objectives: Objectives | None = None
    """Unset in a pool, these count."""
    scaling: ScalingDefaults | None = None
    """Unset in a pool, these count, field by field."""
    batching: BatchingDefaults | None = None
    """Unset in a pool, these count, field by field."""


class ReplicasBound(ApiModel):
    """Upper bound of replicas."""

    max: Replicas
    """No pool gets more replicas, in any mode."""


class BatchSizeBound(ApiModel):
    """Upper bound of the batch cap, in rows."""

    max: BatchSize
    """No pool's batch cap goes above."""


class QueueDepthBound(ApiModel):
    """Upper bound of waiting requests a pod."""

    max: QueueDepth
    """No pod of a pool holds more waiting requests."""


class WeightBound(ApiModel):
    """Upper bound of a pool's share where GPUs are short."""

    max: Weight
    """No pool weighs more when GPUs are divided."""


class TemplateBounds(ApiModel):
    """What pod templates may say. An absent list bounds nothing; an empty one allows nothing."""

    allowed_images: (
        Annotated[
            tuple[Image, ...],
            Field(max_length=64, json_schema_extra=SET_LIST),
        ]
        | None
    ) = None
    """Prefixes of the full image reference."""
    service_account_names: (
        Annotated[tuple[Name, ...], Field(max_length=64, json_schema_extra=SET_LIST)] | None
    ) = None
    """ServiceAccounts that a template may name; a pool's own is always allowed."""
    priority_class_names: (
        Annotated[tuple[Name, ...], Field(max_length=64, json_schema_extra=SET_LIST)] | None
    ) = None
    """PriorityClasses that a template may name."""


class CandidateBounds(ApiModel):
    """Of the bounds those that change what a control law decides."""

    replicas: ReplicasBound | None = None
    """Replicas a pool."""
    batch_size: BatchSizeBound | None = None
    """Batch cap, in rows."""


class PolicyBounds(CandidateBounds):
    """Of all matching policies the tightest bound wins."""

    queue_depth: QueueDepthBound | None = None
    """Waiting requests a pod."""
    weight: WeightBound | None = None
    """A pool's share where GPUs are short."""
    template: TemplateBounds | None = None
    """What pod templates may say."""


_OURS = "^(authorization|host|content-.*|transfer-encoding|connection|cookie|accept.*)$"


class Prometheus(ApiModel):
    """A Prometheus server to read signals from; what it refers to is in the operator's own namespace."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.credentialsSecretRef) || self.url.startsWith('https://')",
                "url %s would carry the credentials of Secret %s in the clear: use https, or drop credentialsSecretRef",
                "self.url",
                "self.credentialsSecretRef.name",
                at=".credentialsSecretRef",
            )
        )
    )

    url: Annotated[
        str,
        Field(min_length=8, max_length=512, pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$"),
    ]
    """Base URL, http or https, without user, query and fragment."""
    ca_config_map_ref: KeySelector | None = None
    """A ConfigMap's key with the PEM certificates that the server's must be signed by; unset, the system's."""
    credentials_secret_ref: LocalObjectReference | None = None
    """A Secret with the key token, or with the keys username and password; only over https."""
    headers: (
        Annotated[
            dict[str, Annotated[str, Field(max_length=512, pattern="^[ -~]*$")]],
            Field(
                max_length=8,
                json_schema_extra=rules(
                    rule(
                        "self.all(k, k.matches('^[A-Za-z0-9][-A-Za-z0-9]{0,63}$'))",
                        "headers %s are no names: write letters, digits and dashes, at most 64",
                        "self.filter(k, !k.matches('^[A-Za-z0-9][-A-Za-z0-9]{0,63}$'))",
                    ),
                    rule(
                        f"!self.exists(k, k.lowerAscii().matches('{_OURS}'))",
                        "headers %s are set by the operator itself: put credentials into credentialsSecretRef, drop the others",
                        f"self.filter(k, k.lowerAscii().matches('{_OURS}'))",
                    ),
                ),
            ),
        ]
        | None
    ) = None
    """Sent with every question, such as a tenant's X-Scope-OrgID; not for secrets."""


class MetricsSource(ApiModel):
    """Where signals come from."""

    prometheus: Prometheus | None = None
    """Overrides the chart's value for the pools selected; unset, that one counts."""


class GpuBudget(ApiModel):
    """Devices that all selected pools may hold together."""

    resource_name: Resource
    """The device plugin's resource, such as nvidia.com/gpu."""
    count: Annotated[int, Field(ge=0, le=100_000)]
    """Devices. Where more are wanted, every pool's minReplicas come first, and the rest goes by weight."""


class CandidatePolicy(ApiModel):
    """Defaults and bounds to be tried in shadow: decisions are recorded and compared, never acted on."""

    defaults: PolicyDefaults | None = None
    """In the place of this policy's own defaults; unset, those stay."""
    bounds: CandidateBounds | None = None
    """In the place of this policy's own bounds; unset, those stay."""


class RollbackMode(StrEnum):
    """Whether an edit that does harm is set aside."""

    NEVER = "Never"
    ON_OBJECTIVE_MISS = "OnObjectiveMiss"


class Rollback(ApiModel):
    """Whether live settings that worsen a pool's attainment give way to those before them."""

    mode: RollbackMode
    """OnObjectiveMiss: an edit after which attainment is over one point lower, at like demand, is set aside."""
    window_seconds: Annotated[int, Field(ge=60, le=86_400)] | None = None
    """How long attainment is measured, before the edit and after every pod obeys it; unset, 600."""


class PolicySpec(ApiModel):
    """What the admin wants for the pools that the selectors match."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!(has(self.poolSelector) && has(self.bounds))",
                "spec.poolSelector cannot go with spec.bounds (%s): tenants write pool labels, and could so"
                " leave the bounds; select by namespaceSelector, or move the bounds to a policy of their own",
                "self.bounds",
                at=".poolSelector",
            ),
            rule(
                "!(has(self.poolSelector) && has(self.gpuBudgets) && self.gpuBudgets.size() > 0)",
                "spec.poolSelector cannot go with spec.gpuBudgets (%s): tenants write pool labels, and could so"
                " leave the budgets; select by namespaceSelector, or move the budgets to a policy of their own",
                "self.gpuBudgets.map(one, one.resourceName)",
                at=".poolSelector",
            ),
        )
    )
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] | None = None
    """Orders defaults and metrics only; unset is 0; the highest wins, per field."""
    namespace_selector: LabelSelector | None = None
    """Unset selects every namespace."""
    pool_selector: LabelSelector | None = None
    """Narrows the pools by their labels; not together with bounds."""
    defaults: PolicyDefaults | None = None
    """Values for live fields that a pool leaves unset."""
    bounds: PolicyBounds | None = None
    """What no pool of the selected namespaces may exceed."""
    gpu_budgets: (
        Annotated[
            tuple[GpuBudget, ...],
            Field(max_length=8, json_schema_extra=list_map("resourceName")),
        ]
        | None
    ) = None
    """Devices that the selected pools may hold together, one entry a resource."""
    schedules: (
        Annotated[tuple[Schedule, ...], Field(max_length=32, json_schema_extra=list_map("name"))]
        | None
    ) = None
    """Known busy hours, in which minReplicas is raised; where several are open, the highest counts."""
    candidate: CandidatePolicy | None = None
    """A policy to be tried in shadow beside this one."""
    rollback: Rollback | None = None
    """Whether live settings that worsen a pool's attainment give way to those before them; unset, Never."""
    metrics: MetricsSource | None = None
    """Where signals come from."""


class BudgetStatus(ApiModel):
    """How one budget is spent."""

    resource_name: Resource
    """The device plugin's resource."""
    wanted: Count
    """Devices that the selected pools want, each at most up to its maximum."""
    granted: Count
    """Devices that they may have."""
    used: Count
    """Devices that their bound pods hold, terminating and surge ones included."""


class PolicyStatus(ApiModel):
    """What the operator found."""

    observed_generation: Generation | None = None
    """The generation of the spec that this status is about."""
    matched_pools: Count | None = None
    """Pools that the selectors match."""
    budgets: (
        Annotated[
            tuple[BudgetStatus, ...],
            Field(max_length=8, json_schema_extra=list_map("resourceName")),
        ]
        | None
    ) = None
    """How each of its budgets is spent."""
    conditions: (
        Annotated[tuple[Condition, ...], Field(max_length=8, json_schema_extra=list_map("type"))]
        | None
    ) = None
    """Accepted, Conflicted and BudgetExhausted."""


class InferencePolicy(ApiModel):
    """What admins say about the inference pools of the namespaces it selects: defaults, bounds, budgets, schedules, metrics."""

    spec: PolicySpec
    """What the admin wants."""
    status: PolicyStatus | None = None
    """What the operator found."""
