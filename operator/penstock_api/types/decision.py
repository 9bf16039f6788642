"""What a control law saw, wanted and did, as the status tells it: decimal strings for real numbers."""

from typing import Annotated, Literal

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import ATOMIC_LIST, Count, Decimal, ShortText, Time, list_map

BoundBy = Literal[
    "MaxReplicas", "Policy", "GpuBudget", "Cluster", "Stabilization", "RateLimit", "Mode", "Signals"
]


class CurveStatus(ApiModel):
    """The service curve t(b) = a + c*b that capacity is reckoned by."""

    intercept_milliseconds: Decimal
    """a, of any batch."""
    milliseconds_per_row: Decimal
    """c."""
    r_squared: Decimal | None = None
    """Share of the variance of batch times that the line explains, 0 to 1; absent where all batches are alike."""
    mean_rows: Decimal
    """The mean batch that it was learnt from."""
    largest_rows: Decimal | None = None
    """The largest batch that was surely measured."""


class ScalingStatus(ApiModel):
    """What the law saw, last it was worth writing (at most every 60 s)."""

    source: Literal["Prometheus", "Pods", "None"] | None = None
    """Where the samples came from."""
    prometheus_url: ShortText | None = None
    """The Prometheus that answered, where the source is Prometheus."""
    duty_source: Literal["Dcgm", "Nvml", "EngineBusyShare"] | None = None
    """What measured GPU utilisation."""
    signal_age_seconds: Decimal | None = None
    """Age of the oldest sample used."""
    gpu_utilization_percent: Decimal | None = None
    """Mean over Ready pods."""
    waiting: Decimal | None = None
    """Requests waiting, over all Ready pods."""
    rows_per_second: Decimal | None = None
    """Rows received before admission, over all pods."""
    forecast_rows_per_second: Decimal | None = None
    """Rows expected when a replica asked for now would serve, with headroom."""
    batch_p99_milliseconds: Decimal | None = None
    """The 99th percentile of batch time."""
    batch_time_target_milliseconds: Decimal | None = None
    """What batch time may be under the objective."""
    curve: CurveStatus | None = None
    """The service curve."""
    planned_cap: Count | None = None
    """The cap that capacity is planned with; the published one may bridge above it."""
    rows_per_second_per_replica: Decimal | None = None
    """What one replica can serve at the planned cap."""
    effective_utilization_percent: Decimal | None = None
    """Demand over the capacity of the Ready pods."""
    utilization_target_percent: Decimal | None = None
    """The largest effective utilisation predicted to meet the objective."""
    imbalance: Decimal | None = None
    """The busiest pod's demand over the mean pod's, at least 1."""
    predicted_p99_milliseconds: Decimal | None = None
    """The 99th percentile of latency, predicted at the present demand and count."""
    startup_p90_seconds: Decimal | None = None
    """The 90th percentile of start-up, from binding to Ready."""
    cap_term: ShortText | None = None
    """Which term binds the cap now."""
    replicas_term: ShortText | None = None
    """Which term binds the count now."""
    bound_by: BoundBy | None = None
    """What keeps the count from what the terms ask for; absent: nothing does."""
    hold_until: Time | None = None
    """Until when the count is not lowered."""


class TermCount(ApiModel):
    """What one term of the law asked for."""

    term: Annotated[str, Field(min_length=1, max_length=64)]
    """The term."""
    replicas: Decimal
    """Replicas, in parts of one."""


class AlternativeStatus(ApiModel):
    """What another cap and count would have cost, and how it would have done at the demand expected."""

    replicas: Count
    """Replicas."""
    cap: Count
    """The batch cap, in rows."""
    accelerators: Count
    """Devices that it would have held."""
    utilization_percent: Decimal
    """Demand over capacity; 100 and more is saturated."""
    predicted_p99_milliseconds: Decimal | None = None
    """Of a request to a pod of mean load; absent where nothing foretells it."""
    verdict: Literal["MeetsObjective", "MissesObjective", "Saturated", "NotPredicted"]
    """How it would have done, over pods that are unequally busy."""


class LastDecision(ApiModel):
    """The last decision that moved, or wanted to move, a valve."""

    time: Time
    """When it was taken."""
    algorithm: ShortText
    """The control law that took it."""
    cap: Count
    """The cap it wanted, in rows."""
    replicas: Count
    """The count it wanted."""
    cap_term: ShortText
    """Which term bound the cap."""
    replicas_term: ShortText
    """Which term bound the count."""
    acted: Literal["Acted", "Recommended", "Held"]
    """What became of it."""
    bound_by: BoundBy | None = None
    """What kept the count from what the terms asked for."""
    hold_until: Time | None = None
    """Until when it held the count up."""
    asked: (
        Annotated[tuple[TermCount, ...], Field(max_length=8, json_schema_extra=list_map("term"))]
        | None
    ) = None
    """What each term of the law asked for."""
    alternatives: (
        Annotated[tuple[AlternativeStatus, ...], Field(max_length=8, json_schema_extra=ATOMIC_LIST)]
        | None
    ) = None
    """Its neighbours, and what they would have cost."""
    message: Annotated[str, Field(max_length=1024)]
    """The same in words, with figures."""
