"""What the operator writes back on an `InferencePool`: bounded, decimal strings for real numbers."""

from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.conditions import Condition
from penstock_api.template import list_map

Count = Annotated[int, Field(ge=0, lt=2**31)]
Generation = Annotated[int, Field(ge=0, lt=2**63)]
ShortText = Annotated[str, Field(max_length=512)]
Decimal = Annotated[str, Field(max_length=32, pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
Time = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]


class TemplateStatus(ApiModel):
    """The pinned pod template."""

    image: ShortText | None = None
    revision: ShortText | None = None


class AcceleratorStatus(ApiModel):
    """How many devices the pool's pods hold now; terminating and surge pods counted."""

    resource_name: Annotated[str, Field(min_length=1, max_length=128)]
    used: Count


class BatchStatus(ApiModel):
    """The published batch cap, and how many pods obey it."""

    cap: Count | None = None
    recommended_cap: Count | None = None
    """What the law wants; differs from `cap` in modes Recommend and Fixed."""
    generation: Generation | None = None
    acknowledged_pods: Count | None = None


class PolicyReference(ApiModel):
    """A policy that took part in this pool's effective spec."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    generation: Generation


class BoundedField(ApiModel):
    """A field that a policy's bound lowered."""

    field: Annotated[str, Field(min_length=1, max_length=253)]
    asked: ShortText
    granted: ShortText
    policy: Annotated[str, Field(max_length=253)]


class ScalingStatus(ApiModel):
    """What the law saw, last it was worth writing (at most every 60 s)."""

    source: ShortText | None = None
    """Prometheus | Pods | None."""
    duty_source: ShortText | None = None
    """Dcgm | Nvml | EngineBusyShare."""
    signal_age_seconds: Decimal | None = None
    gpu_utilization_percent: Decimal | None = None
    waiting: Decimal | None = None
    rows_per_second: Decimal | None = None
    batch_p99_milliseconds: Decimal | None = None
    batch_time_target_milliseconds: Decimal | None = None
    hold_until: Time | None = None


class LastDecision(ApiModel):
    """The last decision that moved, or wanted to move, a valve."""

    time: Time
    algorithm: ShortText
    cap: Count
    replicas: Count
    cap_term: ShortText
    """Which term bound the cap."""
    replicas_term: ShortText
    """Which term bound the count."""
    acted: ShortText
    """Acted | Recommended | Held."""
    message: Annotated[str, Field(max_length=1024)]


class PoolStatus(ApiModel):
    """What is, as last observed."""

    observed_generation: Generation | None = None
    replicas: Count | None = None
    ready_replicas: Count | None = None
    desired_replicas: Count | None = None
    selector: ShortText | None = None
    template: TemplateStatus | None = None
    accelerators: (
        Annotated[
            tuple[AcceleratorStatus, ...],
            Field(max_length=8, json_schema_extra=list_map("resourceName")),
        ]
        | None
    ) = None
    batch: BatchStatus | None = None
    policies: (
        Annotated[
            tuple[PolicyReference, ...], Field(max_length=64, json_schema_extra=list_map("name"))
        ]
        | None
    ) = None
    bounded: (
        Annotated[
            tuple[BoundedField, ...], Field(max_length=32, json_schema_extra=list_map("field"))
        ]
        | None
    ) = None
    conditions: (
        Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=list_map("type"))]
        | None
    ) = None
    scaling: ScalingStatus | None = None
    last_decision: LastDecision | None = None
