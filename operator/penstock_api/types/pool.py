"""`InferencePool`: pods that serve one model, and their settings."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.pod_contract import MAX_RANKS
from penstock_api.types.batch_work import BatchWorkSpec
from penstock_api.types.batching import Batching
from penstock_api.types.devices import Accelerator, Parallelism
from penstock_api.types.fields import MAX_REPLICAS, Weight, list_map, rule, rules
from penstock_api.types.model import ModelSpec
from penstock_api.types.objectives import Objectives
from penstock_api.types.pod_template.container import KeySelector
from penstock_api.types.pod_template.template import PodTemplate
from penstock_api.types.pod_template.volumes import LocalObjectReference
from penstock_api.types.runtime import GenerationSpec, RuntimeSpec
from penstock_api.types.scaling import Scaling
from penstock_api.types.service import RoutingSpec, ServiceSpec
from penstock_api.types.status import PoolStatus
from penstock_api.types.variants import (
    MAX_CHILD_NAME,
    MAX_VARIANTS,
    TEMPLATE_UNION_RULE,
    VariantSpec,
)


class RolloutStrategy(StrEnum):
    """Whether a rollout adds a new replica first (Surge), or removes an old one first (Replace)."""

    SURGE_THEN_REPLACE = "SurgeThenReplace"
    """Surge; if there is no room for the new pod, the rest of the rollout uses Replace."""
    SURGE = "Surge"
    REPLACE = "Replace"


class RolloutSpec(ApiModel):
    """Rollout of template changes."""

    strategy: RolloutStrategy | None = None
    """Surge starts a new pod before it stops an old one, and waits for room. Replace needs no room, but interrupts a pool of
    one replica. SurgeThenReplace, the default, switches from Surge to Replace if the cluster has no room for 30 s, or a
    budget has none."""


class DrainSpec(ApiModel):
    """Drain of a terminating pod."""

    deadline_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """Seconds from SIGTERM for which the pod computes; defaults to 120."""
    relay_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """Seconds after the deadline in which a pod that generates text relays the responses that other pods continue.

    0 ends them at the deadline. Defaults to 600.
    """


class Tls(ApiModel):
    """Certificate of both ports of the pods."""

    secret_ref: LocalObjectReference
    """A Secret of type kubernetes.io/tls; only the pods and their gateway read it, and a renewal applies without a restart."""


class ApiKeysSpec(ApiModel):
    """API keys of the clients."""

    secret_ref: KeySelector
    """The keys in JSON (docs/reference/generation.md, API keys); only the pods read it, and a change applies without a restart."""


_TOKENS_RULE = rule(
    "!has(self.objectives) || self.objectives.all(o, o.metric == 'RequestLatency')"
    " || (has(self.model.task) && self.model.task == 'TextGeneration')",
    "objectives of tokens are for model.task TextGeneration, but model.task is %s: set RequestLatency instead",
    "has(self.model.task) ? self.model.task : 'unset'",
    at=".objectives",
)

_GENERATION_RULE = rule(
    "!has(self.generation) || (has(self.model.task) && self.model.task == 'TextGeneration')",
    "generation is for model.task TextGeneration, but model.task is %s: remove spec.generation",
    "has(self.model.task) ? self.model.task : 'unset'",
    at=".generation",
)
_PARALLELISM_RULE = rule(
    "!has(self.parallelism) || (!has(self.parallelism.tensor) && !has(self.parallelism.pipeline))"
    " || (has(self.model.task) && self.model.task == 'TextGeneration')",
    "parallelism.tensor and parallelism.pipeline are for model.task TextGeneration, but model.task is %s:"
    " remove them, or set parallelism.data",
    "has(self.model.task) ? self.model.task : 'unset'",
    at=".parallelism",
)
_DATA_RULE = rule(
    "!has(self.parallelism) || !has(self.parallelism.data) || self.parallelism.data == 1"
    " || !has(self.model.task) || self.model.task != 'TextGeneration'",
    "parallelism.data %s is for other tasks than TextGeneration: remove it, and use more replicas",
    "self.parallelism.data",
    at=".parallelism.data",
)


def _value(part: str, field: str, default: str = "1", of: str = "self") -> str:
    """Return the CEL expression of an optional field in an optional part of the spec."""
    return f"has({of}.{part}) && has({of}.{part}.{field}) ? {of}.{part}.{field} : {default}"


_COUNT = _value("accelerator", "count")
_TENSOR = _value("parallelism", "tensor")
_STAGES = _value("parallelism", "pipeline")
_ENGINES = _value("parallelism", "data")
_RANKS = f"({_TENSOR}) * ({_STAGES})"
_NODES = _value("parallelism", "nodes")
_USED = f"{_RANKS} * ({_ENGINES}) / ({_NODES})"
_STORED_COUNT = (
    "oldSelf.hasValue() && has(oldSelf.value().accelerator) && has(oldSelf.value().accelerator.count)"
    f" && oldSelf.value().accelerator.count == ({_COUNT})"
)
_USED_DEVICES_RULE = {
    **rule(
        f"({_COUNT}) <= 1 || ({_COUNT}) == ({_USED}) || (!has(self.parallelism) && {_STORED_COUNT})",
        "accelerator.count %s cannot be used: a pod computes on parallelism.tensor times parallelism.pipeline times"
        " parallelism.data devices, divided by parallelism.nodes, which is %s; set both alike, or set count 1 (0 for the CPU) and more replicas for more"
        " devices",
        _COUNT,
        _USED,
        at=".accelerator.count",
    ),
    "optionalOldSelf": True,
}
"""Pools stored with a higher count remain editable."""
_RANKS_RULE = rule(
    f"({_USED}) == 1 || ({_COUNT}) == 0 || ({_USED}) <= ({_COUNT})",
    "parallelism.tensor %s times parallelism.pipeline %s times parallelism.data %s, divided by parallelism.nodes %s, needs as"
    " many devices in each pod, but accelerator.count is %s: set both alike, or count 0 for the CPU",
    _TENSOR,
    _STAGES,
    _ENGINES,
    _NODES,
    _COUNT,
    at=".parallelism",
)
_MOST_RANKS_RULE = rule(
    f"({_RANKS}) <= {MAX_RANKS}",
    f"parallelism.tensor %s times parallelism.pipeline %s exceeds {MAX_RANKS} ranks: lower one of them",
    _TENSOR,
    _STAGES,
    at=".parallelism",
)
_NODES_RULE = rule(
    f"({_RANKS}) % ({_NODES}) == 0",
    "parallelism.nodes %s must divide parallelism.tensor %s times parallelism.pipeline %s: each pod has as many ranks",
    _NODES,
    _TENSOR,
    _STAGES,
    at=".parallelism.nodes",
)
_NODES_KEPT_RULE = rule(
    f"({_NODES}) == ({_NODES.replace('self.', 'oldSelf.')})",
    "parallelism.nodes cannot change from %s to %s while groups of pods run: create another pool",
    _NODES.replace("self.", "oldSelf."),
    _NODES,
    at=".parallelism.nodes",
)
_GATEWAY_HEADLESS_RULE = rule(
    "!has(self.service) || !has(self.service.type) || self.service.type != 'Headless'"
    " || !has(self.routing) || !has(self.routing.mode) || self.routing.mode != 'Gateway'",
    "routing.mode %s cannot be combined with service.type Headless, which leads clients past the Service's ports:"
    " use another type, or mode Service",
    "self.routing.mode",
    at=".routing.mode",
)


_ZERO_RULE = rule(
    "!has(self.scaling) || !has(self.scaling.minReplicas) || self.scaling.minReplicas > 0"
    " || (has(self.scaling.mode) && self.scaling.mode == 'Auto'"
    " && has(self.routing) && has(self.routing.mode) && self.routing.mode == 'Gateway')",
    "scaling.minReplicas %s needs scaling.mode Auto and routing.mode Gateway, which holds requests and starts a replica,"
    " but the modes are %s and %s: set them, or minReplicas 1",
    "self.scaling.minReplicas",
    "has(self.scaling.mode) ? self.scaling.mode : 'unset'",
    "has(self.routing) && has(self.routing.mode) ? self.routing.mode : 'unset'",
    at=".scaling.minReplicas",
)


_VARIANTS_KEPT_RULE = rule(
    "has(self.variants) == has(oldSelf.variants)",
    "spec.variants cannot be %s an existing pool, whose pods they replace: create another pool",
    "has(self.variants) ? 'added to' : 'removed from'",
    at=".variants",
)
_VARIANTS_ZERO_RULE = rule(
    "!has(self.variants) || !has(self.scaling) || !has(self.scaling.minReplicas) || self.scaling.minReplicas > 0",
    "scaling.minReplicas %s cannot be combined with variants: set it to 1 or more; single variants can be at zero",
    "self.scaling.minReplicas",
    at=".scaling.minReplicas",
)
_LEAST = "self.variants.map(v, has(v.minReplicas) ? v.minReplicas : 0).sum()"
_VARIANTS_MAX_RULE = rule(
    "!has(self.variants) || !has(self.scaling) || !has(self.scaling.maxReplicas)"
    f" || {_LEAST} <= self.scaling.maxReplicas",
    "the variants' minReplicas are %s together, above scaling.maxReplicas %s: lower them or raise scaling.maxReplicas",
    _LEAST,
    "self.scaling.maxReplicas",
    at=".variants",
)


_NODES_OF_V = _value("parallelism", "nodes", f"({_NODES})", "v")
_COUNT_OF_V = f"({_value('accelerator', 'count', f'({_COUNT})', 'v')})"
_USED_OF_V = (
    f"({_value('parallelism', 'tensor', f'({_TENSOR})', 'v')})"
    f" * ({_value('parallelism', 'pipeline', f'({_STAGES})', 'v')})"
    f" * ({_value('parallelism', 'data', f'({_ENGINES})', 'v')}) / ({_NODES_OF_V})"
)
_MISFIT = f"{_COUNT_OF_V} != 0 && {_COUNT_OF_V} != {_USED_OF_V}"
_VARIANT_DEVICES_RULE = rule(
    f"!has(self.variants) || !self.variants.exists(v, {_MISFIT})",
    "variants %s: accelerator.count must be parallelism.tensor times parallelism.pipeline times parallelism.data, divided by"
    " parallelism.nodes, or 0 for the CPU; a variant has the pool's values where it sets none",
    f"self.variants.filter(v, {_MISFIT}).map(v, v.name)",
    at=".variants",
)
_REGROUPED = (
    "oldSelf.variants.exists(o, o.name == v.name"
    f" && ({_value('parallelism', 'nodes', f'({_NODES})', 'o')}) != ({_NODES_OF_V}))"
)
"""The pool's own value is the same before and after (`_NODES_KEPT_RULE`)."""
_VARIANT_NODES_KEPT_RULE = rule(
    f"!has(self.variants) || !has(oldSelf.variants) || !self.variants.exists(v, {_REGROUPED})",
    "variants %s: parallelism.nodes cannot change to %s while groups of pods run: add another variant",
    f"self.variants.filter(v, {_REGROUPED}).map(v, v.name)",
    f"self.variants.filter(v, {_REGROUPED}).map(v, {_NODES_OF_V})",
    at=".variants",
)
_VARIANT_GENERATION_RULE = rule(
    "!has(self.variants) || !self.variants.exists(v, has(v.generation))"
    " || (has(self.model.task) && self.model.task == 'TextGeneration')",
    "variants with generation are for model.task TextGeneration, but model.task is %s: remove generation",
    "has(self.model.task) ? self.model.task : 'unset'",
    at=".variants",
)


class PoolSpec(ApiModel):
    """Desired state of a pool. Unset fields take a policy's default or a built-in one."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            _TOKENS_RULE,
            _GENERATION_RULE,
            _PARALLELISM_RULE,
            _DATA_RULE,
            _USED_DEVICES_RULE,
            _RANKS_RULE,
            _MOST_RANKS_RULE,
            _NODES_RULE,
            _NODES_KEPT_RULE,
            _GATEWAY_HEADLESS_RULE,
            _ZERO_RULE,
            _VARIANTS_KEPT_RULE,
            _VARIANTS_ZERO_RULE,
            _VARIANTS_MAX_RULE,
            _VARIANT_DEVICES_RULE,
            _VARIANT_NODES_KEPT_RULE,
            _VARIANT_GENERATION_RULE,
            TEMPLATE_UNION_RULE,
        )
    )

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """Replica count in scaling modes Manual and Recommend, which `kubectl scale` writes. Modes Auto and Hold ignore it.

    With variants: their minReplicas first, the rest in the order of the list.
    """
    model: ModelSpec
    """Model of the pool. A change triggers a rollout."""
    runtime: RuntimeSpec | None = None
    """Image and settings of the runtime container. A change triggers a rollout."""
    generation: GenerationSpec | None = None
    """Settings of text generation, for task TextGeneration. A change triggers a rollout."""
    accelerator: Accelerator | None = None
    """Devices of each pod; defaults to one nvidia.com/gpu. A change triggers a rollout."""
    parallelism: Parallelism | None = None
    """Use of several devices by one replica. A change triggers a rollout."""
    rollout: RolloutSpec | None = None
    """Rollout of template changes."""
    drain: DrainSpec | None = None
    """Drain of terminating pods. A change triggers a rollout."""
    tls: Tls | None = None
    """TLS on both ports of the pods; defaults to plain HTTP. A change triggers a rollout."""
    api_keys: ApiKeysSpec | None = None
    """API keys of the clients; if unset, requests are not authenticated. A change of the reference triggers a rollout."""
    template: PodTemplate | None = None
    """Additions to the pods. A change triggers a rollout."""
    service: ServiceSpec | None = None
    """Service of the clients. Live: applied without a restart."""
    objectives: Objectives | None = None
    """Latency objectives. Live: applied without a restart."""
    batching: Batching | None = None
    """Batching of requests. Live: applied without a restart."""
    scaling: Scaling | None = None
    """Control of the replica count. Live: applied without a restart."""
    routing: RoutingSpec | None = None
    """Distribution of requests over the pods. Live: applied without a restart; the pool's Service keeps its address."""
    batch_work: BatchWorkSpec | None = None
    """Replicas for the lines of batches. Live: applied without a restart."""
    variants: (
        Annotated[
            tuple[VariantSpec, ...],
            Field(min_length=1, max_length=MAX_VARIANTS, json_schema_extra=list_map("name")),
        ]
        | None
    ) = None
    """Kinds of replicas, each with its own devices, placement or settings, behind one Service and under one objective.

    In mode Auto the cheapest mix that meets the objective. Cannot be added to or removed from an existing pool.
    """
    weight: Weight | None = None
    """Weight of the pool when a GPU budget or the cluster is short of devices; a policy can bound it. Live; defaults to 100."""

    @property
    def pods_per_replica(self) -> int:
        """Return the number of pods of one replica."""
        return (self.parallelism and self.parallelism.nodes) or 1


_TARGET = (
    "(has(self.spec.objectives) && self.spec.objectives.size() > 0)"
    " || (has(self.spec.scaling) && has(self.spec.scaling.maxReplicas))"
)
_BY_TARGET = "has(self.status) && has(self.status.unsetScalingMode) && self.status.unsetScalingMode == 'ByTarget'"
_NEW_MODE = (
    "(has(self.spec.scaling) && has(self.spec.scaling.mode) ? self.spec.scaling.mode"
    f" : ({_BY_TARGET} && ({_TARGET}) ? 'Auto' : 'Manual'))"
)
"""As `decide/spec/scaling_mode.py`."""
_OLD_MODE = _NEW_MODE.replace("self.", "oldSelf.")
_READY = "(has(self.status) && has(self.status.readyReplicas) ? self.status.readyReplicas : 0)"

NAME_RULE = rule(
    "self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "metadata.name %s must begin with a letter and have at most 52 lower-case letters, digits and dashes:"
    " choose a shorter or simpler name",
    "self.metadata.name",
    at=".metadata.name",
)
_GROUPED = "has(self.spec.parallelism) && has(self.spec.parallelism.nodes) && self.spec.parallelism.nodes > 1"
MAX_GROUP_NAME = 40
"""The controllers of groups derive label values of at most 63 characters from the name."""
_NODES_OF_VARIANT = _value(
    "parallelism", "nodes", f"({_value('parallelism', 'nodes', of='self.spec')})", "v"
)
_LONG = (
    "self.metadata.name.size() + v.name.size()"
    f" > (({_NODES_OF_VARIANT}) > 1 ? {MAX_GROUP_NAME - 1} : {MAX_CHILD_NAME - 1})"
)
GROUP_NAME_RULE = rule(
    f"!({_GROUPED}) || self.metadata.name.size() <= {MAX_GROUP_NAME}",
    f"metadata.name %s of a pool with parallelism.nodes %s has more than {MAX_GROUP_NAME} characters: choose a shorter name",
    "self.metadata.name",
    "self.spec.parallelism.nodes",
    at=".metadata.name",
)
VARIANT_NAME_RULE = rule(
    f"!has(self.spec.variants) || !self.spec.variants.exists(v, {_LONG})",
    f"variants %s: the names of their pools, %s-<variant>, have more than {MAX_CHILD_NAME} characters, or {MAX_GROUP_NAME} with"
    " parallelism.nodes: choose a shorter name of the pool or of the variant",
    f"self.spec.variants.filter(v, {_LONG}).map(v, v.name)",
    "self.metadata.name",
    at=".spec.variants",
)
LEAVING_AUTO_RULE = rule(
    f"!({_OLD_MODE} in ['Auto', 'Hold'] && {_NEW_MODE} in ['Manual', 'Recommend'])"
    f" || self.spec.replicas != oldSelf.spec.replicas || self.spec.replicas >= {_READY}",
    "spec.scaling.mode %s would shrink the pool from %s ready replicas to spec.replicas %s: set spec.replicas"
    " in the same edit, or use mode Hold to freeze the live count",
    _NEW_MODE,
    _READY,
    "self.spec.replicas",
    at=".spec.scaling.mode",
)


class InferencePool(ApiModel):
    """Pods that serve one model, with a batch cap and a replica count that follow the load."""

    model_config = ConfigDict(
        json_schema_extra=rules(NAME_RULE, GROUP_NAME_RULE, VARIANT_NAME_RULE, LEAVING_AUTO_RULE)
    )
    spec: PoolSpec
    """Desired state."""
    status: PoolStatus | None = None
    """Last observed state."""
