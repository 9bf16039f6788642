"""Fields of the live class: changed without a restart, and what a policy can default."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.limits import (
    BatchSize,
    Discipline,
    Preemption,
    QueueDelayMilliseconds,
    QueueDepth,
)
from penstock_api.types.fields import list_map, rule, rules

MAX_REPLICAS = 1000
Replicas = Annotated[int, Field(ge=1, le=MAX_REPLICAS)]
Percent = Annotated[int, Field(ge=1, le=100)]
Weight = Annotated[int, Field(ge=1, le=10_000)]


class ObjectiveMetric(StrEnum):
    """What an objective is about."""

    REQUEST_LATENCY = "RequestLatency"
    """Of whole requests, from the door to the end."""
    TIME_TO_FIRST_TOKEN = "TimeToFirstToken"  # noqa: S105  a name
    """From the door to the first token; of pools that generate text."""
    TIME_PER_OUTPUT_TOKEN = "TimePerOutputToken"  # noqa: S105  a name
    """Between tokens after the first, the mean of a request; of pools that generate text."""


class Objective(ApiModel):
    """A latency that the pool is to keep: the law bounds batches, or steps of generation, by it, and counts replicas for it."""

    metric: ObjectiveMetric
    """What is measured."""
    milliseconds: Annotated[int, Field(ge=1, le=3_600_000)]
    """What it must stay below."""


class BatchingMode(StrEnum):
    """Who moves the batch cap."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    FIXED = "Fixed"


class SizeRange(ApiModel):
    """The live clamp of the batch cap, in rows."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.min) || !has(self.max) || self.min <= self.max",
                "size.min %s is above size.max %s: lower min or raise max",
                "self.min",
                "self.max",
            )
        )
    )
    min: BatchSize | None = None
    """The cap never falls below; unset, 1."""
    max: BatchSize | None = None
    """The cap never rises above, and mode Fixed stays there; unset, 64."""


class BatchingDefaults(ApiModel):
    """How requests become batches; the part that a policy can default."""

    size: SizeRange | None = None
    """The live clamp of the batch cap; a pod's own memory bound clamps it further."""
    max_queue_delay_milliseconds: QueueDelayMilliseconds | None = None
    """How long a batch may wait for company, from its first request on; unset, 5."""
    max_queue_depth: QueueDepth | None = None
    """Waiting requests a pod may hold before it answers 429; unset, 2048."""
    discipline: Discipline | None = None
    """The order in which waiting requests are served; unset, Priority."""
    preemption: Preemption | None = None
    """Whom a running generation yields to, TextGeneration only; unset, LowerPriority."""


class Batching(BatchingDefaults):
    """How requests become batches."""

    mode: BatchingMode | None = None
    """Auto: the law moves the cap. Recommend: it only records. Fixed: the cap is size.max. Unset: Auto."""


class ScalingMode(StrEnum):
    """Who moves the replica count."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    HOLD = "Hold"
    MANUAL = "Manual"


class ScalingAlgorithm(StrEnum):
    """The control law."""

    UTILIZATION_BAND = "UtilizationBand"
    CAPACITY_AT_OBJECTIVE = "CapacityAtObjective"


class GpuUtilization(ApiModel):
    """The band in which GPU duty is left alone, in percent."""

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
    """UtilizationBand: below it the batch cap may grow; unset, 50. CapacityAtObjective: only if set, replicas are given back only below it."""
    high_percent: Percent | None = None
    """UtilizationBand: above it the batch cap may shrink where batch time breaks the objective; unset, 90. CapacityAtObjective: only if set, demand stays below this share of capacity."""


class QueueDepthTarget(ApiModel):
    """Waiting requests that one Ready replica may hold before another is added."""

    target_per_replica: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Waiting requests a Ready replica may hold before another is added, or 35 % of the cap if that is more; unset, 4. CapacityAtObjective: only if set, a floor of one replica for so many."""


class ScaleDown(ApiModel):
    """How carefully replicas are given back."""

    stabilization_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    """How long a lower count must have been enough; unset, 300. CapacityAtObjective: unset, the longer of 120 and one start-up."""
    max_percent_per_minute: Percent | None = None
    """The share of replicas given back in a minute, at least one; unset, 25."""


class ScalingDefaults(ApiModel):
    """How many replicas; the part that a policy can default."""

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
    """The control law: UtilizationBand follows signals, CapacityAtObjective forecasts; unset, CapacityAtObjective."""
    min_replicas: Replicas | None = None
    """Auto never goes below; unset, 1."""
    max_replicas: Replicas | None = None
    """Auto never goes above; unset, 8."""
    gpu_utilization: GpuUtilization | None = None
    """The band in which GPU duty is left alone."""
    queue_depth: QueueDepthTarget | None = None
    """Waiting requests a replica."""
    scale_down: ScaleDown | None = None
    """How carefully replicas are given back."""


class Scaling(ScalingDefaults):
    """How many replicas, and who decides."""

    mode: ScalingMode | None = None
    """Auto: the law sets the count. Recommend: it only records. Hold: the live count stays. Manual: spec.replicas. Unset: Manual."""


Objectives = Annotated[
    tuple[Objective, ...], Field(max_length=4, json_schema_extra=list_map("metric"))
]
