"""`InferencePool`: the spec a user writes."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.container import ImagePullPolicy, KeySelector
from penstock_api.types.fields import Image, rule, rules
from penstock_api.types.live import MAX_REPLICAS, Batching, Objectives, Scaling, Weight
from penstock_api.types.model import ModelSpec
from penstock_api.types.resources import Resource
from penstock_api.types.status import PoolStatus
from penstock_api.types.template import PodTemplate
from penstock_api.types.volumes import LocalObjectReference


class RuntimeSpec(ApiModel):
    """The runtime container."""

    image: Image | None = None
    """Unset: the operator's default image at the pool's first render, pinned from then on."""
    image_pull_policy: ImagePullPolicy | None = None
    """As core/v1; unset, the operator's own setting."""


_ONE_DEVICE_RULE = rule(
    "self.count <= 1",
    "accelerator.count %s cannot be used: a replica computes on one device; set count 1 (0 for the CPU),"
    " and more replicas for more devices",
    "self.count",
    at=".count",
)
"""Pools stored with a higher count stay editable: the API server skips a rule of an unchanged accelerator (ratcheting)."""


class Accelerator(ApiModel):
    """What one replica computes on. Count 0 means CPU."""

    model_config = ConfigDict(json_schema_extra=rules(_ONE_DEVICE_RULE))

    resource_name: Resource
    """The device plugin's resource, such as nvidia.com/gpu."""
    count: Annotated[int, Field(ge=0, le=16)]
    """Devices a replica: 1, or 0 for the CPU. More than 1 is refused; a pool stored with more uses one of them."""


class RolloutStrategy(StrEnum):
    """Whether a rollout takes one replica more first (Surge), or gives one up first (Replace)."""

    SURGE_THEN_REPLACE = "SurgeThenReplace"
    """Surge; where no room comes for the new pod, the rest of that rollout replaces."""
    SURGE = "Surge"
    REPLACE = "Replace"


class RolloutSpec(ApiModel):
    """How a template change reaches the pods."""

    strategy: RolloutStrategy | None = None
    """Surge starts a new pod before it stops an old one, and waits for room; Replace needs none, and has a gap with
    one replica; unset, SurgeThenReplace: Surge, then Replace where no room comes in 30 s or a budget has none."""


class DrainSpec(ApiModel):
    """How long a pod that is told to stop may finish its work."""

    deadline_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """Seconds from the order to stop to the last answer; unset, 120."""


class Tls(ApiModel):
    """The certificate that the pods serve with, on the clients' port and on the cluster's."""

    secret_ref: LocalObjectReference
    """A Secret of type kubernetes.io/tls; only the pods read it, and a renewed one counts without a restart."""


class ApiKeysSpec(ApiModel):
    """Whom the pool answers: callers who show a key."""

    secret_ref: KeySelector
    """The keys in JSON (docs/generation.md, Who is calling); only the pods read it, and a change counts without a restart."""


_TOKENS_RULE = rule(
    "!has(self.objectives) || self.objectives.all(o, o.metric == 'RequestLatency')"
    " || (has(self.model.task) && self.model.task == 'TextGeneration')",
    "objectives of tokens are for model.task TextGeneration, but model.task is %s: set RequestLatency instead",
    "has(self.model.task) ? self.model.task : 'unset'",
    at=".objectives",
)


class PoolSpec(ApiModel):
    """What the user wants. A field that is left out is filled by a policy's default or a built-in one."""

    model_config = ConfigDict(json_schema_extra=rules(_TOKENS_RULE))

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """The count in scaling modes Manual and Recommend; what `kubectl scale` writes. Modes Auto and Hold ignore it."""
    model: ModelSpec
    """The model that the pool serves. A change rolls the pods."""
    runtime: RuntimeSpec | None = None
    """The runtime container's image. A change rolls the pods."""
    accelerator: Accelerator | None = None
    """What one replica computes on; unset, one nvidia.com/gpu. A change rolls the pods."""
    rollout: RolloutSpec | None = None
    """How a template change reaches the pods."""
    drain: DrainSpec | None = None
    """How long a pod that is told to stop may finish. A change rolls the pods."""
    tls: Tls | None = None
    """TLS on both ports of the pods; unset, plain HTTP. A change rolls the pods."""
    api_keys: ApiKeysSpec | None = None
    """Keys that clients must show; unset, everybody is answered. A change of the reference rolls the pods."""
    template: PodTemplate | None = None
    """Additions to the pods. A change rolls them."""
    objectives: Objectives | None = None
    """Latencies to keep. Live: a change restarts nothing."""
    batching: Batching | None = None
    """How requests become batches. Live: a change restarts nothing."""
    scaling: Scaling | None = None
    """How many replicas, and who decides. Live: a change restarts nothing."""
    weight: Weight | None = None
    """The pool's share where a policy's GPU budget is short, or the cluster; a policy bounds it. Live; unset, 100."""


_NEW_MODE = (
    "(has(self.spec.scaling) && has(self.spec.scaling.mode) ? self.spec.scaling.mode : 'Manual')"
)
_OLD_MODE = _NEW_MODE.replace("self.", "oldSelf.")
_READY = "(has(self.status) && has(self.status.readyReplicas) ? self.status.readyReplicas : 0)"

NAME_RULE = rule(
    "self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "metadata.name %s must begin with a letter and hold at most 52 lower-case letters, digits and dashes:"
    " choose a shorter or plainer name",
    "self.metadata.name",
    at=".metadata.name",
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
    """A pool of pods that serve one model, with a batch cap and a replica count that move with the load."""

    model_config = ConfigDict(json_schema_extra=rules(NAME_RULE, LEAVING_AUTO_RULE))
    spec: PoolSpec
    """What the user wants."""
    status: PoolStatus | None = None
    """What is, as last observed."""
