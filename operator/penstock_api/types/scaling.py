"""Control of the replica count, live: `ScalingDefaults` are the fields that a policy can default."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import (
    MAX_REPLICAS,
    Label,
    Percent,
    Replicas,
    rule,
    rules,
)


class ScalingMode(StrEnum):
    """Control of the replica count."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    HOLD = "Hold"
    MANUAL = "Manual"


class ScalingAlgorithm(StrEnum):
    """Control law of a pool."""

    UTILIZATION_BAND = "UtilizationBand"
    CAPACITY_AT_OBJECTIVE = "CapacityAtObjective"


class GpuUtilization(ApiModel):
    """Target band of GPU utilization, in percent."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.lowPercent) || !has(self.highPercent) || self.lowPercent < self.highPercent",
                "gpuUtilization.lowPercent %s is not below highPercent %s: leave a band between them",
                "self.lowPercent",
                "self.highPercent",
            )
        )
    )
    low_percent: Percent | None = None
    """UtilizationBand: below it the batch cap may grow; defaults to 50. CapacityAtObjective: only if set, replicas are removed only below it."""
    high_percent: Percent | None = None
    """UtilizationBand: above it the batch cap may shrink if batch time exceeds the objective; defaults to 90. CapacityAtObjective: only if set, demand stays below this share of capacity."""


class QueueDepthTarget(ApiModel):
    """Target of waiting requests per Ready replica."""

    target_per_replica: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Waiting requests per Ready replica above which a replica is added, or 35 % of the cap if that is more; defaults to 4. CapacityAtObjective: only if set, at least one replica per this many waiting requests."""


class ScaleDown(ApiModel):
    """Limits of scale-down."""

    stabilization_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    """Time for which a lower count must suffice before scale-down; defaults to 300. CapacityAtObjective: defaults to the longer of 120 and one start-up."""
    max_percent_per_minute: Percent | None = None
    """Share of replicas that may be removed per minute, at least one; defaults to 25."""


class ScalingDefaults(ApiModel):
    """Scaling fields that a policy can default."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                "minReplicas %s is above maxReplicas %s: lower minReplicas or raise maxReplicas",
                "self.minReplicas",
                "self.maxReplicas",
            )
        )
    )
    algorithm: ScalingAlgorithm | None = None
    """Control law: UtilizationBand follows signals, CapacityAtObjective forecasts; defaults to CapacityAtObjective."""
    min_replicas: Replicas | None = None
    """Minimum in mode Auto; defaults to 1."""
    max_replicas: Replicas | None = None
    """Maximum in mode Auto; defaults to 8."""
    gpu_utilization: GpuUtilization | None = None
    """Target band of GPU utilization."""
    queue_depth: QueueDepthTarget | None = None
    """Target of waiting requests per replica."""
    scale_down: ScaleDown | None = None
    """Limits of scale-down."""


class ScaleToZero(ApiModel):
    """Settings of a pool with `minReplicas: 0`."""

    idle_seconds: Annotated[int, Field(ge=30, le=86_400)] | None = None
    """Time without a request after which the last replica is removed; defaults to 300."""
    max_hold_seconds: Annotated[int, Field(ge=1, le=3000)] | None = None
    """Time for which the gateway holds a request until a pod is Ready, after which it responds 504; defaults to 600."""
    max_held_requests: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Requests that each pod of the gateway holds, above which it responds 429; defaults to 1000."""


class Scaling(ScalingDefaults):
    """Control of the replica count."""

    min_replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """Minimum in mode Auto; defaults to 1. 0 needs routing.mode Gateway and mode Auto: the gateway holds requests, and the first one starts a replica."""
    scale_to_zero: ScaleToZero | None = None
    """Settings of a pool with minReplicas 0."""
    mode: ScalingMode | None = None
    """Auto: the law sets the count. Recommend: the law only records its decisions. Hold: the current count is kept. Manual:
    spec.replicas. Defaults to Auto if the pool itself sets an objective or scaling.maxReplicas, else to Manual; pools
    that earlier releases served default to Manual (status.unsetScalingMode)."""


class UnsetScalingMode(StrEnum):
    """Meaning of an unset `scaling.mode`, which a pool keeps from the operator's first pass on."""

    BY_TARGET = "ByTarget"
    """Auto if the spec sets an objective or `scaling.maxReplicas`, else Manual."""
    MANUAL = "Manual"
    """Manual: an earlier release served the pool, or the served CRD cannot store the meaning."""


_PART = r"[0-9A-Za-z*][0-9A-Za-z*,/#-]*"
CRON = rf"^{_PART}( +{_PART}){{4}}$"
TIME_ZONE = r"^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*$"


class Schedule(ApiModel):
    """A recurring window of known load, and its minimum replica count."""

    name: Label
    """Name of the schedule."""
    cron: Annotated[str, Field(min_length=9, max_length=128, pattern=CRON)]
    """Start of the window as a cron expression: minute, hour, day of month, month, day of week; `30 8 * * MON-FRI`."""
    duration_minutes: Annotated[int, Field(ge=1, le=10_080)]
    """Duration of the window in minutes."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=TIME_ZONE)] | None = None
    """Time zone of `cron` by its IANA name, such as Europe/Berlin; defaults to UTC."""
    min_replicas: Replicas
    """Minimum replica count in mode Auto while the window is open, subject to maxReplicas and bounds."""
