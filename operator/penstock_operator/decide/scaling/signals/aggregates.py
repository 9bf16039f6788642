"""What the windows of all pods say about their pool. Pure. None is absent, which is not zero."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals.counters import (
    CurveSumsTuple,
    buckets,
    curve_sums,
    growth,
    mean,
    per_second,
    total,
)
from penstock_operator.decide.scaling.signals.service_curve import batch_p99_seconds
from penstock_operator.decide.scaling.signals.windows import (
    Window,
    full_window,
    lost_rates,
    sample_age,
)
from penstock_operator.observed import UtilizationSource


@dataclass(frozen=True, slots=True)
class MeasuredDemand:
    """What the pool is asked to do, and how well that is known."""

    ready: int
    """Ready pods that are not terminating."""
    sampled: int
    """Those with a sample young enough to be used."""
    unmeasured: int
    """Those without a full window: no demand for scaling up, 100 % busy for scaling down."""
    waiting: float | None
    """Requests, summed over the sampled Ready pods."""
    mean_waiting: float | None
    """The same, each pod's mean over its window: a queue breathes with every batch."""
    rows_per_second: float | None
    """Received before admission, over all pods with a full window, terminating ones and those just gone too."""
    age_seconds: float | None
    """Of the oldest of the newest samples."""

    @property
    def absent(self) -> bool:
        """Whether more than half of the Ready pods have no sample: the pool says nothing."""
        return 2 * (self.ready - self.sampled) > self.ready

    @property
    def waiting_per_replica(self) -> float | None:
        """Return the mean over the sampled Ready pods."""
        return None if self.waiting is None or not self.sampled else self.waiting / self.sampled


@dataclass(frozen=True, slots=True)
class MeasuredService:
    """How the Ready pods did their work in the window."""

    duty: float | None
    """Mean over Ready pods, 0 to 1."""
    duty_source: UtilizationSource | None
    sums: CurveSumsTuple | None
    """Service-curve sums over all Ready pods; None where no batch ended."""
    batch_p99_seconds: float | None
    out_of_memory_splits: float
    pod_seconds: float = 0.0
    """The windows' lengths together."""


def demand(
    pods: Sequence[LawPod],
    windows: Mapping[str, Window],
    gone: Mapping[str, Window],
    asked: float,
) -> MeasuredDemand:
    """Return the pool's demand; `asked` is now by the clock of the samples, `gone` are pods that just went."""
    ready = [pod.uid for pod in pods if pod.ready and not pod.terminating]
    fresh = {
        uid: window for uid, window in windows.items() if sample_age(window, asked) is not None
    }
    waiting = {
        uid: value
        for uid in ready
        if uid in fresh and (value := fresh[uid][-1].waiting) is not None
    }
    rates = {
        uid: rate
        for uid, window in fresh.items()
        if (rate := per_second(full_window(window), "rows_received")) is not None
    }
    past = lost_rates(windows, gone, ready, rates, asked)
    ages = [sample_age(fresh[uid], asked) or 0.0 for uid in waiting]
    return MeasuredDemand(
        ready=len(ready),
        sampled=len(waiting),
        unmeasured=sum(uid not in rates for uid in ready),
        waiting=sum(waiting.values()) if waiting else None,
        mean_waiting=sum(mean(fresh[uid], "waiting") or 0.0 for uid in waiting)
        if waiting
        else None,
        rows_per_second=sum(rates.values()) + sum(past) if rates else None,
        age_seconds=max(ages, default=None),
    )


def service(
    pods: Sequence[LawPod], windows: Mapping[str, Window], asked: float, since: float
) -> MeasuredService:
    """Return how Ready pods worked since `since` (by the samples' clock): full windows only."""
    used = [
        window
        for pod in pods
        if pod.ready
        and not pod.terminating
        and sample_age(held := windows.get(pod.uid, ()), asked) is not None
        and (window := full_window(held, since))
    ]
    grown = total(growth(window) for window in used)
    sums = curve_sums(grown)
    duties = [found for window in used if (found := _duty(window)) is not None]
    return MeasuredService(
        duty=sum(value for value, _ in duties) / len(duties) if duties else None,
        duty_source=_least([source for _, source in duties]),
        sums=sums,
        batch_p99_seconds=batch_p99_seconds(buckets(grown), sums),
        out_of_memory_splits=grown.counters.get("out_of_memory_splits", 0.0),
        pod_seconds=sum(window[-1].time - window[0].time for window in used),
    )


_TRUST = (UtilizationSource.ENGINE, UtilizationSource.NVML, UtilizationSource.DCGM)


def _least(sources: list[UtilizationSource]) -> UtilizationSource | None:
    """Return the least direct of the sources in use: the status promises no more than that."""
    return min(sources, key=_TRUST.index, default=None)


def _duty(window: Window) -> tuple[float, UtilizationSource] | None:
    """Return a pod's duty: what the device says, else the rate of its engine's busy time."""
    newest = window[-1]
    if newest.duty_source in {UtilizationSource.DCGM, UtilizationSource.NVML}:
        said = mean(window, "gpu_utilization")
        if said is not None:
            return min(said, 1.0), newest.duty_source
    busy = per_second(window, "seconds")
    if busy is None:
        busy = mean(window, "gpu_utilization")
    return None if busy is None else (min(busy, 1.0), UtilizationSource.ENGINE)
