"""What every law measures of a pool: demand and service over the windows of its pods, and what it remembers for that. Pure.

None is absent, which is not zero.
"""

from typing import NamedTuple

from penstock_operator.decide.scaling.law import DemandSource, LawInput
from penstock_operator.decide.scaling.signals.counters import (
    CurveSumsTuple,
    buckets,
    curve_sums,
    growth,
    mean,
    per_second,
    total,
)
from penstock_operator.decide.scaling.signals.offered_rows import OfferedRows, is_all, offered_rows
from penstock_operator.decide.scaling.signals.service_curve import batch_tail_seconds
from penstock_operator.decide.scaling.signals.windows import (
    RecentWindows,
    Window,
    Windows,
    advance_windows,
    full_window,
    has_new_samples,
    recent_windows,
    sample_age,
    store_time,
)
from penstock_operator.decide.spec.objectives import LATE_SHARE
from penstock_operator.observed import SignalSource, UtilizationSource

GOOD_TICKS = 3
"""Consecutive ticks with signals that end an absence, so that flapping signals change nothing."""
MINUTE = 60.0


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


class PoolHistory(NamedTuple):
    """Samples, cap and count of one pool; not stored through a restart."""

    windows: Windows = Windows()
    news: bool = False
    """Whether the last round had a new sample."""
    good_ticks: int = GOOD_TICKS - 1
    """Consecutive ticks with signals. A new pool needs one."""
    cap: int | None = None
    """The published cap of the last tick."""
    cap_since: float = 0.0
    """Time of the first tick with that cap."""
    settled_since: float | None = None
    """Time since which every Ready pod has acknowledged it; None if one has not."""
    replicas: int | None = None
    """The Deployment's count at the last tick."""
    downs: tuple[tuple[float, int], ...] = ()
    """(time, replicas removed), in the last minute."""

    def after(self, observed: LawInput, now: float) -> "PoolHistory":
        """Return the history with this round's samples and with changes of cap and count."""
        windows = advance_windows(self.windows, observed.signals, observed.pods, now)
        same = observed.cap == self.cap
        settled = self.settled_since if same else None
        if settled is None and observed.cap is not None and observed.all_acknowledged():
            settled = now
        downs = tuple(move for move in self.downs if now - move[0] < MINUTE)
        if self.replicas is not None and observed.replicas < self.replicas:
            downs = (*downs, (now, self.replicas - observed.replicas))
        return PoolHistory(
            windows=windows,
            news=has_new_samples(self.windows, windows),
            good_ticks=self.good_ticks,
            cap=observed.cap,
            cap_since=self.cap_since if same else now,
            settled_since=settled,
            replicas=observed.replicas,
            downs=downs[-100:],
        )

    def judged(self, demand: MeasuredDemand) -> "PoolHistory":
        """Return the history with the ticks with signals: only rounds with new samples of a Ready pod count.

        A pool may have several ticks between two scrapes.
        """
        if demand.absent:
            return self._replace(good_ticks=0)
        counts = self.news and demand.ready > 0
        return self._replace(good_ticks=min(self.good_ticks + counts, GOOD_TICKS))

    def available(self, demand: MeasuredDemand) -> bool:
        """Return whether signals are usable."""
        return self.good_ticks >= GOOD_TICKS and demand.ready > 0


class Measured(NamedTuple):
    """The pool's samples at one tick, aggregated."""

    seen: RecentWindows
    offered: OfferedRows | None
    demand: MeasuredDemand
    settled: MeasuredService
    """Service since every Ready pod acknowledged the cap."""


def measure(history: PoolHistory, observed: LawInput, now: float, beyond: float) -> Measured:
    """Return the measurements; `beyond` is the share of batches above `batch_tail_seconds`."""
    at = store_time(observed.signals, now)
    windows = {} if observed.signals.source is SignalSource.NONE else history.windows.pods
    seen = recent_windows(observed.pods, windows, history.windows.gone, at)
    rows = offered_rows(observed.offered, windows.values())
    settled = now if history.settled_since is None else history.settled_since
    return Measured(
        seen=seen,
        offered=rows,
        demand=demand_at_gateway(demand(seen), rows),
        settled=service(seen, since=at - (now - settled), beyond=beyond),
    )
