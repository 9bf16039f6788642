"""`InferencePolicy`: an administrator's settings for the pools of selected namespaces."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.conditions import Condition, ObservedGeneration
from penstock_api.pod_contract import BatchSize, QueueDepth
from penstock_api.types.batching import BatchingDefaults
from penstock_api.types.devices import Resource
from penstock_api.types.fields import (
    SET_LIST,
    Count,
    Image,
    Name,
    Replicas,
    Weight,
    list_map,
    rule,
    rules,
)
from penstock_api.types.objectives import Objectives
from penstock_api.types.pod_template.container import KeySelector
from penstock_api.types.pod_template.volumes import LocalObjectReference
from penstock_api.types.pricing import Pricing
from penstock_api.types.scaling import ScalingDefaults, Schedule
from penstock_api.types.selectors import LabelSelector
from penstock_api.types.service import ServiceType


class PolicyDefaults(ApiModel):
    """Values for fields that a pool leaves unset; live fields only, never a mode."""

    objectives: Objectives | None = None
    """Applied when the pool leaves the field unset."""
    scaling: ScalingDefaults | None = None
    """Applied per field when the pool leaves it unset."""
    batching: BatchingDefaults | None = None
    """Applied per field when the pool leaves it unset."""


class ReplicasBound(ApiModel):
    """Upper bound of replicas."""

    max: Replicas
    """Maximum replicas of a pool, in any mode."""


class BatchSizeBound(ApiModel):
    """Upper bound of the batch cap, in rows."""

    max: BatchSize
    """Maximum batch cap of a pool."""


class QueueDepthBound(ApiModel):
    """Upper bound of waiting requests per pod."""

    max: QueueDepth
    """Maximum waiting requests per pod."""


class WeightBound(ApiModel):
    """Upper bound of a pool's weight."""

    max: Weight
    """Maximum weight of a pool when GPUs are divided."""


AnnotationPrefix = Annotated[str, Field(min_length=1, max_length=317)]


class TemplateBounds(ApiModel):
    """Values allowed in pod templates. An absent list allows any value; an empty one allows none."""

    allowed_images: (
        Annotated[
            tuple[Image, ...],
            Field(max_length=64, json_schema_extra=SET_LIST),
        ]
        | None
    ) = None
    """Allowed prefixes of the full image reference."""
    service_account_names: (
        Annotated[tuple[Name, ...], Field(max_length=64, json_schema_extra=SET_LIST)] | None
    ) = None
    """ServiceAccounts that a template may name; a pool's own is always allowed."""
    priority_class_names: (
        Annotated[tuple[Name, ...], Field(max_length=64, json_schema_extra=SET_LIST)] | None
    ) = None
    """PriorityClasses that a template may name."""
    runtime_class_names: (
        Annotated[tuple[Name, ...], Field(max_length=64, json_schema_extra=SET_LIST)] | None
    ) = None
    """RuntimeClasses that a template may name; the cluster's default, by naming none, is always allowed."""
    scheduler_names: (
        Annotated[tuple[Name, ...], Field(max_length=64, json_schema_extra=SET_LIST)] | None
    ) = None
    """Schedulers that a template may name; default-scheduler is always allowed."""


class ServiceBounds(ApiModel):
    """Service settings that are allowed. An absent list allows any value."""

    allowed_types: (
        Annotated[tuple[ServiceType, ...], Field(max_length=8, json_schema_extra=SET_LIST)] | None
    ) = None
    """Service types; ClusterIP and Headless are always allowed, and ClusterIP replaces a type that is not."""
    allowed_annotations: (
        Annotated[tuple[AnnotationPrefix, ...], Field(max_length=64, json_schema_extra=SET_LIST)]
        | None
    ) = None
    """Allowed prefixes of annotation keys; annotations with other keys are left out."""


class CandidateBounds(ApiModel):
    """Bounds that affect the decisions of a control law."""

    replicas: ReplicasBound | None = None
    """Upper bound of replicas per pool."""
    batch_size: BatchSizeBound | None = None
    """Upper bound of the batch cap, in rows."""


class PolicyBounds(CandidateBounds):
    """Bounds of pools; the tightest bound of all matching policies wins."""

    queue_depth: QueueDepthBound | None = None
    """Upper bound of waiting requests per pod."""
    weight: WeightBound | None = None
    """Upper bound of a pool's weight."""
    template: TemplateBounds | None = None
    """Values allowed in pod templates."""
    service: ServiceBounds | None = None
    """Service settings that are allowed."""


_RESERVED_HEADERS = "^(authorization|host|content-.*|transfer-encoding|connection|cookie|accept.*)$"


class Prometheus(ApiModel):
    """A Prometheus server as the source of signals; referenced objects are in the operator's namespace."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.credentialsSecretRef) || self.url.startsWith('https://')",
                "url %s would send the credentials of Secret %s in clear text: use https, or remove credentialsSecretRef",
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
    """Base URL, http or https, without user info, query or fragment."""
    ca_config_map_ref: KeySelector | None = None
    """Key of a ConfigMap with the CA certificates of the server in PEM; defaults to the system's."""
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
                        "headers %s are not header names: use at most 64 letters, digits and dashes",
                        "self.filter(k, !k.matches('^[A-Za-z0-9][-A-Za-z0-9]{0,63}$'))",
                    ),
                    rule(
                        f"!self.exists(k, k.lowerAscii().matches('{_RESERVED_HEADERS}'))",
                        "headers %s are set by the operator itself: put credentials into credentialsSecretRef, and remove the others",
                        f"self.filter(k, k.lowerAscii().matches('{_RESERVED_HEADERS}'))",
                    ),
                ),
            ),
        ]
        | None
    ) = None
    """Headers of every query, such as a tenant's X-Scope-OrgID; not for secrets."""


class MetricsSource(ApiModel):
    """Source of signals."""

    prometheus: Prometheus | None = None
    """Prometheus server for the selected pools; defaults to the chart's value."""


class GpuBudget(ApiModel):
    """Limit of the devices of all selected pools together."""

    resource_name: Resource
    """Resource of the device plugin, such as nvidia.com/gpu."""
    count: Annotated[int, Field(ge=0, le=100_000)]
    """Number of devices. If pools request more, each pool's minReplicas come first, and the rest is divided by weight."""


class CandidatePolicy(ApiModel):
    """Defaults and bounds that are evaluated in shadow: decisions are recorded and compared, never applied."""

    defaults: PolicyDefaults | None = None
    """Replaces this policy's defaults; if unset, they apply."""
    bounds: CandidateBounds | None = None
    """Replaces this policy's bounds; if unset, they apply."""


class RollbackMode(StrEnum):
    """Whether an edit that worsens attainment is rolled back."""

    NEVER = "Never"
    ON_OBJECTIVE_MISS = "OnObjectiveMiss"


class Rollback(ApiModel):
    """Rollback of live settings that worsen a pool's attainment."""

    mode: RollbackMode
    """OnObjectiveMiss: an edit is rolled back if, at similar demand, attainment falls by more than 100 minus the objective's percent: one point by default."""
    window_seconds: Annotated[int, Field(ge=60, le=86_400)] | None = None
    """Time over which attainment is measured, before the edit and after every pod acknowledged it; defaults to 600."""


class PolicySpec(ApiModel):
    """Settings for the pools that the selectors match."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!(has(self.poolSelector) && has(self.bounds))",
                "spec.poolSelector cannot be combined with spec.bounds (%s): tenants set pool labels, and could"
                " escape the bounds; select by namespaceSelector, or move the bounds to a separate policy",
                "self.bounds",
                at=".poolSelector",
            ),
            rule(
                "!(has(self.poolSelector) && has(self.gpuBudgets) && self.gpuBudgets.size() > 0)",
                "spec.poolSelector cannot be combined with spec.gpuBudgets (%s): tenants set pool labels, and could"
                " escape the budgets; select by namespaceSelector, or move the budgets to a separate policy",
                "self.gpuBudgets.map(budget, budget.resourceName)",
                at=".poolSelector",
            ),
        )
    )
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] | None = None
    """Precedence of defaults and metrics; the highest wins per field; defaults to 0."""
    namespace_selector: LabelSelector | None = None
    """Selects namespaces; defaults to all."""
    pool_selector: LabelSelector | None = None
    """Selects pools by their labels; not together with bounds."""
    defaults: PolicyDefaults | None = None
    """Values of live fields that a pool leaves unset."""
    bounds: PolicyBounds | None = None
    """Limits of all pools in the selected namespaces."""
    gpu_budgets: (
        Annotated[
            tuple[GpuBudget, ...],
            Field(max_length=8, json_schema_extra=list_map("resourceName")),
        ]
        | None
    ) = None
    """Limits of the devices of all selected pools together, one entry per resource."""
    schedules: (
        Annotated[tuple[Schedule, ...], Field(max_length=32, json_schema_extra=list_map("name"))]
        | None
    ) = None
    """Windows of known load, in which minReplicas is raised; if several are open, the highest applies."""
    candidate: CandidatePolicy | None = None
    """Candidate settings that are evaluated in shadow."""
    rollback: Rollback | None = None
    """Rollback of live settings that worsen a pool's attainment; defaults to Never."""
    pricing: Pricing | None = None
    """Prices from which the cost of the selected pools follows; those of the policy with the highest priority apply."""
    metrics: MetricsSource | None = None
    """Source of signals."""


class BudgetStatus(ApiModel):
    """Use of one budget."""

    resource_name: Resource
    """Resource of the device plugin."""
    wanted: Count
    """Devices that the selected pools request, each at most up to its maximum."""
    granted: Count
    """Devices granted to the pools."""
    used: Count
    """Devices of their bound pods, including terminating and surge pods."""


class PolicyStatus(ApiModel):
    """Observed state of a policy."""

    observed_generation: ObservedGeneration | None = None
    """Generation of the spec that this status describes; -1 before the operator observed the object."""
    matched_pools: Count | None = None
    """Pools that the selectors match."""
    budgets: (
        Annotated[
            tuple[BudgetStatus, ...],
            Field(max_length=8, json_schema_extra=list_map("resourceName")),
        ]
        | None
    ) = None
    """Use of each budget."""
    conditions: (
        Annotated[tuple[Condition, ...], Field(max_length=8, json_schema_extra=list_map("type"))]
        | None
    ) = None
    """Accepted, Conflicted and BudgetExhausted."""


class InferencePolicy(ApiModel):
    """Defaults, bounds, budgets, schedules and metrics for the inference pools in selected namespaces."""

    spec: PolicySpec
    """Desired settings."""
    status: PolicyStatus | None = None
    """Observed state."""
