"""The replica count of UtilizationBand (docs/design/control-law.md#utilizationband). Pure.

Up at once to n = ceil(waiting / target), target = max(targetPerReplica, 0.35 * cap). The count is absolute, so that loading
replicas are not requested twice; high duty alone adds none. Down by one only if few requests waited and one replica less
sufficed during the whole stabilization period.
"""

from math import ceil
from typing import NamedTuple

from penstock_operator.decide.scaling.reasons import ReplicasMove, ReplicasReason, counted
from penstock_operator.decide.scaling.signals.aggregates import MINUTE, MeasuredDemand
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.scaling.signals.service_curve import batch_seconds
from penstock_operator.decide.spec.law_settings import LawSettings

CAP_SHARE = 0.35
"""Mean number of waiting requests of a replica with full batches, as a share of the cap."""


class ReplicasInput(NamedTuple):
    """Inputs of the count decision."""

    settings: LawSettings
    replicas: int
    """The Deployment's present count, including loading replicas."""
    cap: int
    demand: MeasuredDemand
    sums: CurveSumsTuple | None
    """Service-curve sums of the windows."""
    spare_since: float | None
    """Time since which one replica less suffices without interruption."""
    downs: tuple[tuple[float, int], ...]
    """(time, replicas removed), in the last minute."""


def clamp_replicas(replicas: int, settings: LawSettings) -> int:
    """Return the count inside [minReplicas, maxReplicas]; the maximum wins where they cross."""
    return min(max(replicas, settings.min_replicas), settings.max_replicas)


def target_per_replica(settings: LawSettings, cap: int) -> float:
    """Return how many requests may wait per replica before a replica is added."""
    return max(float(settings.target_per_replica), CAP_SHARE * cap)


def is_spare(seen: ReplicasInput) -> bool:
    """Return whether one replica less suffices now; False if a signal is absent.

    Waiting requests are judged by their mean over the window, since one sample may fall within a batch. A Ready pod without
    a full window counts as 100 % busy. Replicas that are not Ready carry no load and are removed first, so that only the
    remaining Ready ones count.
    """
    demand = seen.demand
    staying = min(demand.ready, seen.replicas - 1)
    if staying < 1 or demand.mean_waiting is None or demand.rows_per_second is None:
        return False
    target = target_per_replica(seen.settings, seen.cap)
    unsampled = demand.ready - demand.sampled
    if (demand.mean_waiting + unsampled * target) / demand.ready >= target / 2:
        return False
    high = seen.settings.high_percent / 100
    seconds = batch_seconds(seen.sums, seen.cap)
    if seconds is None or seconds <= 0:
        return demand.rows_per_second == 0 and demand.unmeasured / staying < high
    each = seen.cap / seconds
    return (demand.rows_per_second / each + demand.unmeasured) / staying < high


def next_replicas(seen: ReplicasInput, now: float) -> ReplicasMove:
    """Return the new count and its reason."""
    bounded = bounds_only(seen.settings, seen.replicas)
    if bounded is not None:
        return bounded
    waiting = seen.demand.waiting or 0.0
    target = target_per_replica(seen.settings, seen.cap)
    needed = ceil(waiting / target)
    if needed > seen.replicas:
        why = f"{waiting:.0f} requests are waiting, over {target:.1f} per replica"
        return raised(seen.settings, seen.replicas, needed, ReplicasReason.QUEUE_DEPTH, why)
    return _down(seen, now)


def bounds_only(settings: LawSettings, replicas: int) -> ReplicasMove | None:
    """Return the change that the bounds alone require; they apply at once, with or without signals."""
    bounded = clamp_replicas(replicas, settings)
    if bounded < replicas:
        why = f"maxReplicas is {settings.max_replicas}"
        return ReplicasMove(bounded, ReplicasReason.MAX_REPLICAS, why)
    if bounded > replicas:
        why = f"minReplicas is {settings.min_replicas}"
        return ReplicasMove(bounded, ReplicasReason.MIN_REPLICAS, why)
    return None


def rate_limit(
    settings: LawSettings, replicas: int, target: int, downs: tuple[tuple[float, int], ...]
) -> tuple[int, ReplicasMove | None]:
    """Return how many replicas may be removed now, and the unchanged count if none may."""
    percent, removed = settings.max_percent_per_minute, sum(number for _, number in downs)
    allowed = max(1, (replicas + removed) * percent // 100) - removed
    if allowed > 0:
        return allowed, None
    why = f"{counted(target, 'suffice')}; scale-down is limited to {percent} % a minute"
    until = downs[0][0] + MINUTE
    return 0, ReplicasMove(replicas, ReplicasReason.RATE_LIMITED, why, hold_until=until)


def raised(
    settings: LawSettings, replicas: int, needed: int, term: ReplicasReason, why: str
) -> ReplicasMove:
    """Return the count raised to what is needed, at most to its maximum."""
    granted = clamp_replicas(needed, settings)
    if granted > replicas:
        return ReplicasMove(granted, term, why)
    why = f"{why}, but maxReplicas is {settings.max_replicas}"
    return ReplicasMove(replicas, ReplicasReason.MAX_REPLICAS, why)


def _down(seen: ReplicasInput, now: float) -> ReplicasMove:
    n, settings = seen.replicas, seen.settings
    if n <= settings.min_replicas:
        return ReplicasMove(n, ReplicasReason.MIN_REPLICAS, "the count is at its minimum")
    if seen.spare_since is None:
        return ReplicasMove(n, ReplicasReason.STEADY, "the present replicas are needed")
    until = seen.spare_since + settings.stabilization_seconds
    if now < until:
        why = f"{counted(n - 1, 'suffice')}; scaling down after {settings.stabilization_seconds} s of stabilization"
        return ReplicasMove(n, ReplicasReason.STABILIZING, why, hold_until=until)
    _, limited = rate_limit(settings, n, n - 1, seen.downs)
    if limited is not None:
        return limited
    why = f"{counted(n - 1)} sufficed for {settings.stabilization_seconds} s"
    return ReplicasMove(n - 1, ReplicasReason.SPARE_CAPACITY, why)
