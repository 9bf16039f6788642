"""Control of the batch cap and the queue, live: `BatchingDefaults` are the fields that a policy can default."""

from enum import StrEnum

from pydantic import ConfigDict

from penstock_api.base import ApiModel
from penstock_api.pod_contract import (
    BatchedTokens,
    BatchSize,
    Discipline,
    Preemption,
    QueueDelayMilliseconds,
    QueueDepth,
)
from penstock_api.types.fields import rule, rules


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
    max_batched_tokens: BatchedTokens | None = None
    """Limit of the tokens of a step, TextGeneration only: sequences have one each, and the rest are prompt chunks. The batch cap if that is
    more; at most what the KV cache of a pod holds. Unset: 512, or the batch cap if that is more."""


class Batching(BatchingDefaults):
    """Batching of requests."""

    mode: BatchingMode | None = None
    """Auto: the law sets the cap. Recommend: the law only records its decisions. Fixed: the cap is size.max. Defaults to Auto."""
