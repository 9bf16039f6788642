"""Observations and decisions of a control law in the status; non-integers are decimal strings."""

from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import ATOMIC_LIST, Count, Decimal, ShortText, Time, Word, list_map


class CurveStatus(ApiModel):
    """Service curve t(b) = a + c*b (time of a batch of b rows), from which capacity is computed."""

    intercept_milliseconds: Decimal
    """a, the fixed time of a batch."""
    milliseconds_per_row: Decimal
    """c, the time per row."""
    r_squared: Decimal | None = None
    """Coefficient of determination of the fit, 0 to 1; absent if all batches have the same size."""
    mean_rows: Decimal
    """Mean size of the measured batches."""
    largest_rows: Decimal | None = None
    """Largest batch with reliable measurements."""


class BatchWorkStatus(ApiModel):
    """Batch work of the pool, as its batch service reports it."""

    lines_left: Annotated[int, Field(ge=0, le=10**12)]
    """Lines of unfinished batches without an answer."""
    lines_per_second: Decimal
    """Rate at which all batches end in time, the nearest deadline first."""
    replicas: Decimal
    """Replicas that this rate takes; of a pool with variants those of the one that serves it cheapest."""
    added_replicas: Count
    """Replicas beyond those that other demand and minReplicas need."""


class StartStatus(ApiModel):
    """Parts of a start from zero, in seconds, for the first request that waited: they add up to its wait."""

    decision_seconds: Decimal
    """From the arrival of the first request until a pod existed."""
    scheduling_seconds: Decimal
    """From then until a pod had a node."""
    container_seconds: Decimal
    """From then until its image was there, and a container ran."""
    model_seconds: Decimal
    """From then until it was Ready."""
    endpoint_seconds: Decimal
    """From then until Envoy had it in force."""
    first_byte_seconds: Decimal
    """From then until the first byte of an answer was on its way."""


class ScalingStatus(ApiModel):
    """Observations of the control law, updated on significant changes (at most every 60 s)."""

    source: Word | None = None
    """Source of the samples: Prometheus, Pods or None."""
    prometheus_url: ShortText | None = None
    """URL of the Prometheus that returned the samples, if it is the source."""
    demand_source: Word | None = None
    """Where demand was counted: Gateway, at the pool's listeners, held and refused requests too; or Pods."""
    duty_source: Word | None = None
    """Source of GPU utilization: Dcgm, Nvml or EngineBusyShare."""
    signal_age_seconds: Decimal | None = None
    """Age of the oldest sample used."""
    gpu_utilization_percent: Decimal | None = None
    """Mean GPU utilization of Ready pods."""
    waiting: Decimal | None = None
    """Waiting requests of all Ready pods."""
    held_requests: Count | None = None
    """Requests that the gateway holds because no pod is ready; absent without any."""
    last_start: StartStatus | None = None
    """The last start from zero that a gateway saw from its first request to its first answer."""
    rows_per_second: Decimal | None = None
    """Rows received by all pods, before admission."""
    forecast_rows_per_second: Decimal | None = None
    """Forecast for the time at which a replica requested now would serve, with headroom."""
    batch_p99_milliseconds: Decimal | None = None
    """99th percentile of batch time."""
    batch_time_target_milliseconds: Decimal | None = None
    """Batch time allowed by the objective."""
    curve: CurveStatus | None = None
    """Service curve."""
    batch_work: BatchWorkStatus | None = None
    """Batch work of the pool; absent without spec.batchWork, or while its batch service does not answer."""
    planned_cap: Count | None = None
    """Cap for which capacity is planned."""
    rows_per_second_per_replica: Decimal | None = None
    """Capacity of one replica at the planned cap."""
    effective_utilization_percent: Decimal | None = None
    """Demand divided by the capacity of the Ready pods."""
    utilization_target_percent: Decimal | None = None
    """Largest effective utilization predicted to meet the objective."""
    imbalance: Decimal | None = None
    """Demand of the busiest pod divided by the mean, at least 1."""
    predicted_p99_milliseconds: Decimal | None = None
    """Predicted 99th percentile of latency at the current demand and count."""
    on_time_percent: Decimal | None = None
    """Percentage of requests of the last 10 minutes that met the objectives; absent without an objective or requests."""
    startup_p90_seconds: Decimal | None = None
    """90th percentile of start-up time, from binding to Ready."""
    cap_term: ShortText | None = None
    """Term that determines the cap."""
    replicas_term: ShortText | None = None
    """Term that determines the replica count."""
    bound_by: Word | None = None
    """Constraint that keeps the count from the one that the terms request: MaxReplicas, Policy, GpuBudget, Cluster,
    Stabilization, RateLimit, Mode or Signals; absent if there is none."""
    hold_until: Time | None = None
    """Time until which the count is not lowered."""


class TermCount(ApiModel):
    """Replica count requested by one term of the law."""

    term: Annotated[str, Field(min_length=1, max_length=64)]
    """Name of the term."""
    replicas: Decimal
    """Replicas as a fraction."""


class AlternativeStatus(ApiModel):
    """An alternative cap and count, with its cost and predicted latency at the forecast demand."""

    replicas: Count
    """Replica count."""
    cap: Count
    """Batch cap, in rows."""
    accelerators: Count
    """Number of devices."""
    utilization_percent: Decimal
    """Demand divided by capacity; 100 and more is saturated."""
    predicted_p99_milliseconds: Decimal | None = None
    """Predicted 99th percentile of latency in a pod of mean load; absent if not predicted."""
    verdict: Word
    """Verdict under the observed imbalance of pods: MeetsObjective, MissesObjective, Saturated or NotPredicted."""


class LastDecision(ApiModel):
    """Last decision that changed a control variable, or that was not applied."""

    time: Time
    """Time of the decision."""
    algorithm: ShortText
    """Control law that decided."""
    cap: Count
    """Cap of the decision, in rows."""
    replicas: Count
    """Replica count of the decision."""
    cap_term: ShortText
    """Term that determined the cap."""
    replicas_term: ShortText
    """Term that determined the count."""
    acted: Word
    """Whether the decision was applied: Acted, Recommended or Held."""
    bound_by: Word | None = None
    """Constraint that kept the count from the one that the terms requested, as in `scaling`."""
    hold_until: Time | None = None
    """Time until which the count was not lowered."""
    asked: (
        Annotated[tuple[TermCount, ...], Field(max_length=8, json_schema_extra=list_map("term"))]
        | None
    ) = None
    """Replica counts requested by the terms of the law."""
    alternatives: (
        Annotated[tuple[AlternativeStatus, ...], Field(max_length=8, json_schema_extra=ATOMIC_LIST)]
        | None
    ) = None
    """Alternatives with their cost."""
    message: Annotated[str, Field(max_length=1024)]
    """Human-readable explanation with figures."""
