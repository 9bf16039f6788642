"""Fields of the live class: changed without a restart, and what a policy can default."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.limits import BatchSize, Discipline, QueueDelayMilliseconds, QueueDepth
from penstock_api.template import list_map, rule, rules

MAX_REPLICAS = 1000
Replicas = Annotated[int, Field(ge=1, le=MAX_REPLICAS)]
Percent = Annotated[int, Field(ge=1, le=100)]


class ObjectiveMetric(StrEnum):
    """What an objective is about."""

    REQUEST_LATENCY = "RequestLatency"


class Objective(ApiModel):
    """A latency that the pool is to keep; the law bounds batch time by it."""

    metric: ObjectiveMetric
    milliseconds: Annotated[int, Field(ge=1, le=3_600_000)]


class BatchingMode(StrEnum):
    """Who moves the batch cap."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    FIXED = "Fixed"


class SizeRange(ApiModel):
    """The live clamp of the batch cap, in rows."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "!has(self.min) || !has(self.max) || self.min <= self.max",
                "'size.min ' + string(self.min) + ' is above size.max ' + string(self.max)"
                " + ': lower min or raise max'",
            )
        )
    }
    min: BatchSize | None = None
    max: BatchSize | None = None


class BatchingDefaults(ApiModel):
    """How requests become batches; the part that a policy can default."""

    size: SizeRange | None = None
    max_queue_delay_milliseconds: QueueDelayMilliseconds | None = None
    max_queue_depth: QueueDepth | None = None
    discipline: Discipline | None = None


class Batching(BatchingDefaults):
    """How requests become batches."""

    mode: BatchingMode | None = None


class ScalingMode(StrEnum):
    """Who moves the replica count."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    HOLD = "Hold"
    MANUAL = "Manual"


class ScalingAlgorithm(StrEnum):
    """The control law."""

    UTILIZATION_BAND = "UtilizationBand"


class GpuUtilization(ApiModel):
    """The band in which GPU duty is left alone, in percent."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "!has(self.lowPercent) || !has(self.highPercent) || self.lowPercent < self.highPercent",
                "'gpuUtilization.lowPercent ' + string(self.lowPercent) + ' is not below highPercent '"
                " + string(self.highPercent) + ': leave a band between them'",
            )
        )
    }
    low_percent: Percent | None = None
    high_percent: Percent | None = None


class QueueDepthTarget(ApiModel):
    """Waiting requests that one Ready replica may hold before another is added."""

    target_per_replica: Annotated[int, Field(ge=1, le=100_000)] | None = None


class ScaleDown(ApiModel):
    """How carefully replicas are given back."""

    stabilization_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    max_percent_per_minute: Percent | None = None


class ScalingDefaults(ApiModel):
    """How many replicas; the part that a policy can default."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                "'minReplicas ' + string(self.minReplicas) + ' is above maxReplicas '"
                " + string(self.maxReplicas) + ': lower minReplicas or raise maxReplicas'",
            )
        )
    }
    algorithm: ScalingAlgorithm | None = None
    min_replicas: Replicas | None = None
    max_replicas: Replicas | None = None
    gpu_utilization: GpuUtilization | None = None
    queue_depth: QueueDepthTarget | None = None
    scale_down: ScaleDown | None = None


class Scaling(ScalingDefaults):
    """How many replicas, and who decides."""

    mode: ScalingMode | None = None


Objectives = Annotated[
    tuple[Objective, ...], Field(max_length=4, json_schema_extra=list_map("metric"))
]
