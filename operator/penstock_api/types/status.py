"""What the operator writes back on an `InferencePool`: bounded, decimal strings for real numbers."""

from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.conditions import Condition
from penstock_api.limits import Generation
from penstock_api.types.decision import LastDecision, ScalingStatus
from penstock_api.types.fields import Count, Decimal, Name, ShortText, list_map


class TemplateStatus(ApiModel):
    """The pinned pod template."""

    image: ShortText | None = None
    """The image that the pods run: by digest once one of them is Ready, by name before."""
    revision: ShortText | None = None
    """The ControllerRevision that holds the rendered template."""


class AcceleratorStatus(ApiModel):
    """How many devices the pool's pods hold now; terminating and surge pods counted."""

    resource_name: Annotated[str, Field(min_length=1, max_length=128)]
    """The device plugin's resource name."""
    used: Count
    """Devices."""


class BatchStatus(ApiModel):
    """The published batch cap, and how many pods obey it."""

    cap: Count | None = None
    """The published cap, in rows."""
    recommended_cap: Count | None = None
    """What the law wants; differs from `cap` in modes Recommend and Fixed."""
    generation: Generation | None = None
    """The generation of the published limits."""
    acknowledged_pods: Count | None = None
    """Pods that obey that generation."""


class PolicyReference(ApiModel):
    """A policy that took part in this pool's effective spec."""

    name: Name
    """Name of the InferencePolicy."""
    generation: Generation
    """The generation of it that was used."""


class BoundedField(ApiModel):
    """A field that a policy's bound lowered."""

    field: Annotated[str, Field(min_length=1, max_length=253)]
    """Path of the field."""
    asked: ShortText
    """What the pool, or a default, asked for."""
    granted: ShortText
    """What it got."""
    policy: Annotated[str, Field(max_length=253)]
    """The policy whose bound it was."""


class CandidateDecision(ApiModel):
    """What a policy's candidate would do with this pool; never acted on."""

    policy: Name
    """The policy that carries the candidate."""
    generation: Generation
    """The generation of it."""
    cap: Count
    """The cap that it wants, in rows."""
    replicas: Count
    """The count that it wants."""
    actual_replicas: Count
    """The count that is asked for at the same time."""
    replicas_term: ShortText
    """Which term bound its count."""
    replica_hours: Decimal
    """Replica hours that it would have asked for since this operator met it."""
    actual_replica_hours: Decimal
    """Replica hours that were asked for in that time."""


class PoolStatus(ApiModel):
    """What is, as last observed."""

    observed_generation: Generation | None = None
    """The generation of the spec that this status is about."""
    replicas: Count | None = None
    """Pods that exist."""
    ready_replicas: Count | None = None
    """Pods that are Ready."""
    desired_replicas: Count | None = None
    """What the control loop wants in modes Auto and Recommend; in Manual and Hold the count."""
    selector: ShortText | None = None
    """Label selector of the pods, for the scale subresource."""
    template: TemplateStatus | None = None
    """The pinned pod template."""
    accelerators: (
        Annotated[
            tuple[AcceleratorStatus, ...],
            Field(max_length=8, json_schema_extra=list_map("resourceName")),
        ]
        | None
    ) = None
    """Devices that the pool's pods hold now."""
    batch: BatchStatus | None = None
    """The published batch cap, and how many pods obey it."""
    policies: (
        Annotated[
            tuple[PolicyReference, ...], Field(max_length=64, json_schema_extra=list_map("name"))
        ]
        | None
    ) = None
    """The policies that took part in the effective spec."""
    bounded: (
        Annotated[
            tuple[BoundedField, ...], Field(max_length=32, json_schema_extra=list_map("field"))
        ]
        | None
    ) = None
    """The fields that a policy's bound lowered."""
    conditions: (
        Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=list_map("type"))]
        | None
    ) = None
    """Ready, Progressing, UpToDate, Scaling, LimitsApplied, MetricsAvailable, PolicyApplied, BudgetLimited."""
    candidate: CandidateDecision | None = None
    """What the candidate of a policy would do, for comparison."""
    scaling: ScalingStatus | None = None
    """What the law saw."""
    last_decision: LastDecision | None = None
    """The last decision, and why."""
