"""Demand and service of a pool, aggregated over the windows of its pods. Pure. None is absent, which is not zero."""

from typing import NamedTuple

from penstock_operator.decide.scaling.law import DemandSource
from penstock_operator.decide.scaling.signals.counters import (
    CurveSumsTuple,
    buckets,
    curve_sums,
    growth,
    mean,
    per_second,
    total,
)
from penstock_operator.decide.scaling.signals.offered_rows import OfferedRows, is_all
from penstock_operator.decide.scaling.signals.service_curve import batch_tail_seconds
from penstock_operator.decide.scaling.signals.windows import (
    RecentWindows,
    Window,
    full_window,
    sample_age,
)
from penstock_operator.decide.spec.objectives import LATE_SHARE
from penstock_operator.observed import UtilizationSource

GOOD_TICKS = 3
"""Consecutive ticks with signals that end an absence, so that flapping signals change nothing."""


class MeasuredDemand(NamedTuple):
    """Demand of the pool, and how many pods it was measured at."""

    ready: int
    """Ready pods that are not terminating."""
    sampled: int
    """Ready pods with a recent sample."""
    silent: int
    """Ready pods without one, those aside that became Ready after the samples of the others were taken."""
    unmeasured: int
    """Ready pods without a full window: no demand for scaling up, 100 % busy for scaling down."""
    waiting: float | None
    """Requests, summed over the sampled Ready pods."""
    mean_waiting: float | None
    """Waiting requests, by each pod's mean over its window, since a queue varies with every batch."""
    rows_per_second: float | None
    """Rows received before admission, over all pods with a full window, including terminating and just deleted pods."""
    age_seconds: float | None
    """Age of the oldest of the pods' newest samples."""
    source: DemandSource = DemandSource.PODS
    """Where `rows_per_second` was counted."""

    @property
    def absent(self) -> bool:
        """Whether more than half of the Ready pods are silent, or none has a sample."""
        return 2 * self.silent > self.ready or (self.ready > 0 and not self.sampled)

    def good_ticks(self, before: int, *, news: bool) -> int:
        """Return the consecutive ticks with signals, counting only rounds with new samples; unchanged without a Ready pod.

        A pool may have several ticks between two scrapes.
        """
        if self.ready == 0:
            return before
        if self.absent:
            return 0
        return min(before + 1, GOOD_TICKS) if news else before

    @property
    def waiting_per_replica(self) -> float | None:
        """Return the mean over the sampled Ready pods."""
        return None if self.waiting is None or not self.sampled else self.waiting / self.sampled


class MeasuredService(NamedTuple):
    """Service of the Ready pods over their windows."""

    duty: float | None
    """Mean over Ready pods, 0 to 1."""
    duty_source: UtilizationSource | None
    sums: CurveSumsTuple | None
    """Service-curve sums over all Ready pods; None if no batch ended."""
    batch_tail_seconds: float | None
    """Batch time that as large a share of batches exceeds as the objective allows of requests."""
    out_of_memory_splits: float
    pod_seconds: float = 0.0
    """Total length of the windows."""
    batch_p99_seconds: float | None = None
    """99th percentile of batch time, for the status."""


def demand(seen: RecentWindows) -> MeasuredDemand:
    """Return the pool's demand."""
    ready, fresh = seen.ready, seen.fresh
    waiting = {
        uid: value
        for uid in ready
        if uid in fresh and (value := fresh[uid][-1].waiting) is not None
    }
    rates = {
        uid: rate
        for uid, window in seen.full.items()
        if (rate := per_second(window, "rows_received")) is not None
    }
    age = max((sample_age(fresh[uid], seen.time) or 0.0 for uid in waiting), default=None)
    sampled_at = seen.time - (age or 0.0)
    return MeasuredDemand(
        ready=len(ready),
        sampled=len(waiting),
        silent=sum(
            uid not in waiting and (pod.ready_since is None or pod.ready_since <= sampled_at)
            for uid, pod in ready.items()
        ),
        unmeasured=sum(uid not in rates for uid in ready),
        waiting=sum(waiting.values()) if waiting else None,
        mean_waiting=sum(mean(fresh[uid], "waiting") or 0.0 for uid in waiting)
        if waiting
        else None,
        rows_per_second=sum(rates.values()) + sum(seen.past) if rates else None,
        age_seconds=age,
    )


def demand_at_gateway(demand: MeasuredDemand, rows: OfferedRows | None) -> MeasuredDemand:
    """Return the demand with the gateway's count, if it counted all: held and refused requests too, and each request once."""
    received = demand.rows_per_second
    if rows is None or received is None or not is_all(rows.window, received):
        return demand
    return demand._replace(rows_per_second=rows.window, source=DemandSource.GATEWAY)


def service(seen: RecentWindows, since: float, beyond: float = LATE_SHARE) -> MeasuredService:
    """Return the service of Ready pods since `since` (by the samples' clock), from full windows only.

    `beyond` is the share of batches above `batch_tail_seconds`.
    """
    fresh = (seen.fresh.get(uid, ()) for uid in seen.ready)
    used = [whole for window in fresh if (whole := full_window(window, since))]
    grown = total(growth(window) for window in used)
    sums, durations = curve_sums(grown), buckets(grown)
    p99 = batch_tail_seconds(durations, sums)
    duties = [duty for window in used if (duty := _duty(window)) is not None]
    return MeasuredService(
        duty=sum(value for value, _ in duties) / len(duties) if duties else None,
        duty_source=_least([source for _, source in duties]),
        sums=sums,
        batch_tail_seconds=p99
        if beyond == LATE_SHARE
        else batch_tail_seconds(durations, sums, beyond),
        batch_p99_seconds=p99,
        out_of_memory_splits=grown.get("out_of_memory_splits", 0.0),
        pod_seconds=sum(window[-1].time - window[0].time for window in used),
    )


_TRUST = (UtilizationSource.ENGINE, UtilizationSource.NVML, UtilizationSource.DCGM)


def _least(sources: list[UtilizationSource]) -> UtilizationSource | None:
    """Return the least direct of the sources in use, which the status reports."""
    return min(sources, key=_TRUST.index, default=None)


def _duty(window: Window) -> tuple[float, UtilizationSource] | None:
    """Return a pod's duty: from the device, else the rate of its engine's busy time."""
    newest = window[-1]
    if newest.duty_source in {UtilizationSource.DCGM, UtilizationSource.NVML}:
        measured_duty = mean(window, "gpu_utilization")
        if measured_duty is not None:
            return min(measured_duty, 1.0), newest.duty_source
    busy = per_second(window, "seconds")
    if busy is None:
        busy = mean(window, "gpu_utilization")
    return None if busy is None else (min(busy, 1.0), UtilizationSource.ENGINE)
