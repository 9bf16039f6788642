"""Live fields of a pool, changed without a restart, and their subset that a policy can default."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.pod_contract import (
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


class BatchWorkSpec(ApiModel):
    """Replicas for the lines of batches, which can wait."""

    max_replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """Replicas that batch work may add to those that other demand and minReplicas need, within scaling.maxReplicas; 0, the
    default: batch work has what other demand leaves."""
    deadline_seconds: Annotated[int, Field(ge=60, le=30 * 86400)] | None = None
    """Seconds from its submission in which a batch is planned to end; unset, or beyond the batch's own window: the window."""


class ObjectiveMetric(StrEnum):
    """Latency that an objective limits."""

    REQUEST_LATENCY = "RequestLatency"
    """From arrival to the end of a request."""
    TIME_TO_FIRST_TOKEN = "TimeToFirstToken"  # noqa: S105  a name
    """From arrival to the first token, for pools that generate text."""
    TIME_PER_OUTPUT_TOKEN = "TimePerOutputToken"  # noqa: S105  a name
    """Mean time between tokens after the first, for pools that generate text."""


DEFAULT_PERCENT = 99
_PERCENT = r"^[5-9][0-9](\.[0-9])?$"


def _shortest(percent: int | str) -> int | str:
    """Return a percentage as an integer if it is one, else as a decimal string."""
    text = str(percent)
    if re.fullmatch(_PERCENT, text) is None:
        raise ValueError(f"must be 50 to 99.9 with at most one decimal, got {text!r}")
    whole, _, tenths = text.partition(".")
    return int(whole) if tenths in ("", "0") else text


ObjectivePercent = Annotated[
    int | str,
    AfterValidator(_shortest),
    Field(
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            "pattern": _PERCENT,
            "maxLength": 8,
            "minimum": 50,
            "maximum": 99,
        }
    ),
]
"""From 50 to 99.9: an integer, or a string with one decimal, because the API has no floats."""


class Objective(ApiModel):
    """A latency objective: the law limits batches, or steps of generation, and computes the replica count to meet it."""

    metric: ObjectiveMetric
    """Latency that is measured."""
    milliseconds: Annotated[int, Field(ge=1, le=3_600_000)]
    """Upper limit of the latency."""
    percent: ObjectivePercent | None = None
    """Percentage of requests that must be within the limit: 50 to 99.9, with a decimal as a string such as "99.9"; defaults to 99."""


class BatchingMode(StrEnum):
    """Control of the batch cap."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    FIXED = "Fixed"


class SizeRange(ApiModel):
    """Range of the batch cap, in rows."""

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
    """Minimum of the cap; defaults to 1."""
    max: BatchSize | None = None
    """Maximum of the cap, and its value in mode Fixed; defaults to 64."""


class BatchingDefaults(ApiModel):
    """Batching fields that a policy can default."""

    size: SizeRange | None = None
    """Range of the batch cap; a pod's memory bound limits it further."""
    max_queue_delay_milliseconds: QueueDelayMilliseconds | None = None
    """Time for which an incomplete batch waits for more requests, from its first request; defaults to 5."""
    max_queue_depth: QueueDepth | None = None
    """Limit of waiting requests per pod, above which the pod responds 429; defaults to 2048."""
    discipline: Discipline | None = None
    """Order in which waiting requests are served; defaults to Priority."""
    preemption: Preemption | None = None
    """Condition under which a running generation is preempted, TextGeneration only; defaults to LowerPriority."""


class Batching(BatchingDefaults):
    """Batching of requests."""

    mode: BatchingMode | None = None
    """Auto: the law sets the cap. Recommend: the law only records its decisions. Fixed: the cap is size.max. Defaults to Auto."""


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


Objectives = Annotated[
    tuple[Objective, ...], Field(max_length=4, json_schema_extra=list_map("metric"))
]
