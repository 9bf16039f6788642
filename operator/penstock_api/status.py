"""What the operator writes back on an `InferencePool`: bounded, decimal strings for real numbers."""

from typing import Annotated, Literal

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.conditions import Condition
from penstock_api.fields import Name, list_map
from penstock_api.limits import Generation

Count = Annotated[int, Field(ge=0, lt=2**31)]
ShortText = Annotated[str, Field(max_length=512)]
Decimal = Annotated[str, Field(max_length=32, pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
Time = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]


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


class ScalingStatus(ApiModel):
    """What the law saw, last it was worth writing (at most every 60 s)."""

    source: Literal["Prometheus", "Pods", "None"] | None = None
    """Where the samples came from."""
    duty_source: Literal["Dcgm", "Nvml", "EngineBusyShare"] | None = None
    """What measured GPU utilisation."""
    signal_age_seconds: Decimal | None = None
    """Age of the oldest sample used."""
    gpu_utilization_percent: Decimal | None = None
    """Mean over Ready pods."""
    waiting: Decimal | None = None
    """Requests waiting, over all Ready pods."""
    rows_per_second: Decimal | None = None
    """Rows received before admission, over all pods."""
    batch_p99_milliseconds: Decimal | None = None
    """The 99th percentile of batch time."""
    batch_time_target_milliseconds: Decimal | None = None
    """What batch time may be under the objective."""
    hold_until: Time | None = None
    """Until when the count is not lowered."""


class LastDecision(ApiModel):
    """The last decision that moved, or wanted to move, a valve."""

    time: Time
    """When it was taken."""
    algorithm: ShortText
    """The control law that took it."""
    cap: Count
    """The cap it wanted, in rows."""
    replicas: Count
    """The count it wanted."""
    cap_term: ShortText
    """Which term bound the cap."""
    replicas_term: ShortText
    """Which term bound the count."""
    acted: Literal["Acted", "Recommended", "Held"]
    """What became of it."""
    message: Annotated[str, Field(max_length=1024)]
    """The same in words, with figures."""


class PoolStatus(ApiModel):
    """What is, as last observed."""

    observed_generation: Generation | None = None
    """The generation of the spec that this status is about."""
    replicas: Count | None = None
    """Pods that exist."""
    ready_replicas: Count | None = None
    """Pods that are Ready."""
    desired_replicas: Count | None = None
    """What the control loop wants, whether or not its mode lets it act."""
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
    """Ready, Progressing, UpToDate, Scaling, LimitsApplied, MetricsAvailable, PolicyApplied."""
    scaling: ScalingStatus | None = None
    """What the law saw."""
    last_decision: LastDecision | None = None
    """The last decision, and why."""
