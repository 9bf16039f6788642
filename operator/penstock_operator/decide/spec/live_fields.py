"""Live fields as a flat map from path to value, such as `scaling.minReplicas` -> 1, so that precedence is a union of maps.

Paths are those of the API below `spec`; an objective is `objectives.<metric>` with the value of `objectives.Target`.
Values are integers and strings, so that a map survives JSON.
"""

from collections.abc import Mapping
from typing import Any

from penstock_api.types.objectives import Objective
from penstock_api.types.policy import PolicyDefaults
from penstock_api.types.pool import PoolSpec
from penstock_api.types.scaling import ScalingAlgorithm
from penstock_operator.decide.spec.objectives import Target

Value = int | str
Fields = Mapping[str, Value]

OBJECTIVE = "objectives."
MIN_REPLICAS = "scaling.minReplicas"
MAX_REPLICAS = "scaling.maxReplicas"
ALGORITHM = "scaling.algorithm"
LOW_PERCENT = "scaling.gpuUtilization.lowPercent"
HIGH_PERCENT = "scaling.gpuUtilization.highPercent"
TARGET_PER_REPLICA = "scaling.queueDepth.targetPerReplica"
STABILIZATION_SECONDS = "scaling.scaleDown.stabilizationSeconds"
MAX_PERCENT_PER_MINUTE = "scaling.scaleDown.maxPercentPerMinute"
SIZE_MIN = "batching.size.min"
SIZE_MAX = "batching.size.max"
MAX_QUEUE_DELAY = "batching.maxQueueDelayMilliseconds"
MAX_QUEUE_DEPTH = "batching.maxQueueDepth"
DISCIPLINE = "batching.discipline"
WEIGHT = "weight"
PREEMPTION = "batching.preemption"
MAX_BATCHED_TOKENS = "batching.maxBatchedTokens"

BUILT_IN: Fields = {
    MIN_REPLICAS: 1,
    MAX_REPLICAS: 8,
    ALGORITHM: ScalingAlgorithm.CAPACITY_AT_OBJECTIVE.value,
    LOW_PERCENT: 50,
    HIGH_PERCENT: 90,
    TARGET_PER_REPLICA: 4,
    STABILIZATION_SECONDS: 300,
    MAX_PERCENT_PER_MINUTE: 25,
    SIZE_MIN: 1,
    SIZE_MAX: 64,
    MAX_QUEUE_DELAY: 5,
    MAX_QUEUE_DEPTH: 2048,
    DISCIPLINE: "Priority",
    WEIGHT: 100,
    PREEMPTION: "LowerPriority",
}
"""Values of the live fields that neither pool nor policy sets (docs/design/design.md#precedence); objectives and MAX_BATCHED_TOKENS,
which the pod chooses, have none."""

MODES = ("scaling.mode", "batching.mode")
"""Modes never come from a policy, where one edit would switch every pool."""


def live_fields(source: PoolSpec | PolicyDefaults) -> dict[str, Value]:
    """Return the live fields that `source` sets, without modes and `replicas`."""
    given = source.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        include={"scaling", "batching", WEIGHT},
        exclude={"scaling": {"scale_to_zero"}},  # of the spec alone
    )
    flat = {path: value for path, value in _walk("", given) if path not in MODES}
    return flat | _objectives(source.objectives or ())


def _walk(prefix: str, tree: Mapping[str, Any]) -> list[tuple[str, Value]]:
    flat: list[tuple[str, Value]] = []
    for key, value in tree.items():
        nested = isinstance(value, dict)
        flat += _walk(f"{prefix}{key}.", value) if nested else [(prefix + key, value)]
    return flat


def _objectives(objectives: tuple[Objective, ...]) -> dict[str, Value]:
    return {OBJECTIVE + item.metric.value: Target.of(item).as_field() for item in objectives}


def plausible(field: str, value: object) -> bool:
    """Return whether a policy's default for `field` could have `value`, by the API's own types.

    It checks stored values that users can edit.
    """
    tree: object = value
    path = field.split(".")
    try:
        if field.startswith(OBJECTIVE):
            target = Target.read(str(value))
            limits = {"milliseconds": target.milliseconds, "percent": target.percent}
            tree = {"objectives": [{"metric": path[-1], **limits}]}
        else:
            for key in reversed(path):
                tree = {key: tree}
        return live_fields(PolicyDefaults.model_validate(tree)) == {field: value}
    except ValueError:  # a ValidationError of pydantic is one
        return False
