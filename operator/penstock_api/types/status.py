"""`PoolStatus`: the status of an `InferencePool`; non-integers are decimal strings."""

from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.conditions import Condition, ObservedGeneration
from penstock_api.pod_contract import Generation
from penstock_api.types.decision import LastDecision, ScalingStatus
from penstock_api.types.fields import ATOMIC_LIST, Count, Decimal, Name, ShortText, Word, list_map
from penstock_api.types.variants import VariantStatus


class TemplateStatus(ApiModel):
    """The pinned pod template."""

    image: ShortText | None = None
    """Image of the pods: by digest once one of them is Ready, by name before."""
    revision: ShortText | None = None
    """ControllerRevision with the rendered template."""


class AcceleratorStatus(ApiModel):
    """Devices of the pool's pods, including terminating and surge pods."""

    resource_name: Annotated[str, Field(min_length=1, max_length=128)]
    """Resource name of the device plugin."""
    used: Count
    """Number of devices."""


class BatchStatus(ApiModel):
    """Published batch cap, and the number of pods that acknowledged it."""

    cap: Count | None = None
    """Published cap, in rows."""
    recommended_cap: Count | None = None
    """Cap that the law recommends; differs from `cap` in modes Recommend and Fixed."""
    generation: Generation | None = None
    """Generation of the published limits."""
    acknowledged_pods: Count | None = None
    """Pods that acknowledged that generation."""


class ModelBackendCandidate(ApiModel):
    """One backend of the model, as a pod measured it at its start."""

    name: Word
    """Name of the backend."""
    rows_per_second: (
        Annotated[tuple[Decimal, ...], Field(max_length=8, json_schema_extra=ATOMIC_LIST)] | None
    ) = None
    """Rows per second at each of `batchSizes`; absent if it was not measured."""
    greatest_error: ShortText | None = None
    """Greatest difference from the untouched model, relative to its greatest output; for text generation in a 16-bit type, of the
    log-probabilities of the 20 most probable tokens from Float32."""
    mean_error: ShortText | None = None
    """Mean of that difference, for text generation."""
    equal_tokens_percent: Decimal | None = None
    """Percentage of positions whose most probable token is that of Float32, for text generation."""
    message: ShortText | None = None
    """Reason why it cannot be selected."""


class ModelBackendStatus(ApiModel):
    """Backend that runs the model, and what the others would have given."""

    name: Word
    """Backend of most Ready pods."""
    pods: Count | None = None
    """Ready pods that use it."""
    batch_sizes: (
        Annotated[tuple[Count, ...], Field(max_length=8, json_schema_extra=ATOMIC_LIST)] | None
    ) = None
    """Rows of the measured batches."""
    candidates: (
        Annotated[
            tuple[ModelBackendCandidate, ...],
            Field(max_length=8, json_schema_extra=list_map("name")),
        ]
        | None
    ) = None
    """Backends that one of these pods measured."""


class PolicyReference(ApiModel):
    """A policy that contributes to the effective spec of the pool."""

    name: Name
    """Name of the InferencePolicy."""
    generation: Generation
    """Generation of the policy that was used."""


class BoundedField(ApiModel):
    """A field whose value a policy's bound reduced."""

    field: Annotated[str, Field(min_length=1, max_length=253)]
    """Path of the field."""
    asked: ShortText
    """Value in the pool or the default."""
    granted: ShortText
    """Value in force."""
    policy: Annotated[str, Field(max_length=253)]
    """Policy with the bound."""


class EffectiveField(ApiModel):
    """A live field with the value in force, and where it comes from."""

    field: Annotated[str, Field(min_length=1, max_length=253)]
    """Path of the field below spec."""
    value: ShortText
    """Value in force."""
    origin: ShortText
    """Spec, BuiltIn, PolicyDefault, Bound or Schedule with the policy's name, Adjusted (to the other end of its range),
    Kept (while policies conflict), or Rollback."""


class CandidateDecision(ApiModel):
    """Decision of a policy's candidate for this pool, which is never applied."""

    policy: Name
    """Policy with the candidate."""
    generation: Generation
    """Generation of the policy."""
    cap: Count
    """Cap of the candidate, in rows."""
    replicas: Count
    """Replica count of the candidate."""
    actual_replicas: Count
    """Replica count that is requested at the same time."""
    replicas_term: ShortText
    """Term that determined the candidate's count."""
    replica_hours: Decimal
    """Replica hours that the candidate would have requested since this operator started to evaluate it."""
    actual_replica_hours: Decimal
    """Replica hours that were requested in the same time."""


class CostStatus(ApiModel):
    """Cost of the pool's pods at the prices of a policy; amounts are decimal strings, absent where they are unknown."""

    currency: Annotated[str, Field(max_length=3)] | None = None
    """Currency of all amounts, by ISO 4217; absent while policies conflict."""
    per_hour: Decimal | None = None
    """Price of an hour of all bound pods, including starting and terminating ones."""
    per_day: Decimal | None = None
    """24 times the price of an hour."""
    per_replica_hour: Decimal | None = None
    """Mean price of an hour of a pod that stays."""
    per_thousand_requests: Decimal | None = None
    """Price of an hour divided by the requests completed in an hour, at the rate of the last 10 minutes, times 1,000."""
    per_million_tokens: Decimal | None = None
    """The same for generated tokens, times 1,000,000; absent for other tasks than TextGeneration."""
    batch_work_percent: Decimal | None = None
    """Share of batch work in the rows, or generated tokens, of the last 10 minutes; absent without any."""
    batch_work_per_hour: Decimal | None = None
    """That share of the price of an hour."""
    message: Annotated[str, Field(max_length=1024)]
    """How the price of an hour is composed, or why it is unknown."""


class PoolStatus(ApiModel):
    """Last observed state of the pool."""

    observed_generation: ObservedGeneration | None = None
    """Generation of the spec that this status describes; -1 before the operator observed the object."""
    replicas: Count | None = None
    """Pods that exist."""
    ready_replicas: Count | None = None
    """Pods that are Ready."""
    desired_replicas: Count | None = None
    """Replica count of the control law in modes Auto and Recommend; in Manual and Hold the count in effect."""
    ready_replicas_of: Annotated[str, Field(max_length=32)] | None = None
    """Ready replicas of the requested ones, such as 1/4."""
    selector: ShortText | None = None
    """Label selector of the pods, for the scale subresource."""
    model: ShortText | None = None
    """Name that clients use for the model."""
    url: ShortText | None = None
    """Base URL of the pool inside the cluster, which clients of the OpenAI API use with its path."""
    prometheus_url: ShortText | None = None
    """URL of the Prometheus that the operator queries for the pool, whether or not it answers; absent without one."""
    scaling_mode: Word | None = None
    """Scaling mode in force."""
    unset_scaling_mode: Word | None = None
    """Meaning of an unset scaling.mode: ByTarget (Auto with an objective or maxReplicas in the spec, else Manual), or
    Manual for pools that earlier releases served; it never changes."""
    template: TemplateStatus | None = None
    """The pinned pod template."""
    accelerators: (
        Annotated[
            tuple[AcceleratorStatus, ...],
            Field(max_length=8, json_schema_extra=list_map("resourceName")),
        ]
        | None
    ) = None
    """Devices of the pool's pods."""
    batch: BatchStatus | None = None
    """Published batch cap, and the number of pods that acknowledged it."""
    model_backend: ModelBackendStatus | None = None
    """Backend that runs the model, what the others would have given, and the error of a requested dtype; for text generation only
    present with model.dtype Float16 or BFloat16."""
    policies: (
        Annotated[
            tuple[PolicyReference, ...], Field(max_length=64, json_schema_extra=list_map("name"))
        ]
        | None
    ) = None
    """Policies that contribute to the effective spec."""
    bounded: (
        Annotated[
            tuple[BoundedField, ...], Field(max_length=32, json_schema_extra=list_map("field"))
        ]
        | None
    ) = None
    """Fields that a policy's bound reduced."""
    effective: (
        Annotated[
            tuple[EffectiveField, ...], Field(max_length=64, json_schema_extra=list_map("field"))
        ]
        | None
    ) = None
    """Live fields with their values in force and their origins."""
    conditions: (
        Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=list_map("type"))]
        | None
    ) = None
    """Ready, Progressing, UpToDate, Scaling, LimitsApplied, MetricsAvailable, PolicyApplied, BudgetLimited.

    Stalled, Reconciling, DevicesUsed, Routed and SplitByCapacity are present only where they apply.
    """
    candidate: CandidateDecision | None = None
    """Decision of a policy's candidate, for comparison."""
    variants: (
        Annotated[
            tuple[VariantStatus, ...], Field(max_length=16, json_schema_extra=list_map("name"))
        ]
        | None
    ) = None
    """Variants of the pool, removed ones included until their pods are gone; absent without variants."""
    variant_replicas: ShortText | None = None
    """Ready replicas of the requested ones of each variant, such as `a100 2/2, cpu 0/1`."""
    cost: CostStatus | None = None
    """Cost of the pool; absent while no policy that selects it has prices."""
    scaling: ScalingStatus | None = None
    """Observations of the control law."""
    last_decision: LastDecision | None = None
    """Last decision, with its reason."""
