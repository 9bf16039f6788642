"""The first law's second valve: the replica count (docs/design/control-law.md#utilizationband). Pure.

Up at once to n = ceil(waiting / target), target = max(targetPerReplica, 0.35 * cap): an absolute count, so
replicas still loading are not asked for twice; high duty alone never adds one. Down by one only if for the
whole stabilisation few waited and one replica less would have been enough.
"""

from dataclasses import dataclass
from math import ceil

from penstock_operator.decide.scaling.reasons import ReplicasMove, ReplicasReason
from penstock_operator.decide.scaling.signals.aggregates import MeasuredDemand
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.scaling.signals.service_curve import batch_seconds
from penstock_operator.decide.spec.law_settings import LawSettings

CAP_SHARE = 0.35
"""A replica that always fills its batches holds about this share of a cap waiting, on average."""
MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class ReplicasInput:
    """What the count is decided from."""

    settings: LawSettings
    replicas: int
    """What the Deployment asks for now, loading replicas included."""
    cap: int
    demand: MeasuredDemand
    sums: CurveSumsTuple | None
    """Service-curve sums of the window."""
    spare_since: float | None
    """Since when one replica less would have been enough, without a break."""
    downs: tuple[float, ...]
    """When the count went down, in the last minute."""


def clamp_replicas(replicas: int, settings: LawSettings) -> int:
    """Return the count inside [minReplicas, maxReplicas]; the maximum wins where they cross."""
    return min(max(replicas, settings.min_replicas), settings.max_replicas)


def target_per_replica(settings: LawSettings, cap: int) -> float:
    """Return how many requests one replica may hold waiting before another is added."""
    return max(float(settings.target_per_replica), CAP_SHARE * cap)


def is_spare(seen: ReplicasInput) -> bool:
    """Return whether one replica less would do now. Anything absent: no.

    Waiting is judged by its mean over the window, since one sample may catch a queue in mid-batch. A Ready
    pod without a full window counts 100 % busy. Replicas that are not Ready carry nothing: they would go
    first, and only the Ready ones that stay are counted on.
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
    """Return the wanted count, and what bound it."""
    bounded = bounds_only(seen.settings, seen.replicas)
    if bounded is not None:
        return bounded
    waiting = seen.demand.waiting or 0.0
    target = target_per_replica(seen.settings, seen.cap)
    wanted = ceil(waiting / target)
    if wanted > seen.replicas:
        return _up(seen, wanted, f"{waiting:.0f} requests wait, over {target:.1f} per replica")
    return _down(seen, now)


def bounds_only(settings: LawSettings, replicas: int) -> ReplicasMove | None:
    """Return the move that the bounds alone ask for; they hold at once, signals or none."""
    bounded = clamp_replicas(replicas, settings)
    if bounded < replicas:
        why = f"maxReplicas is {settings.max_replicas}"
        return ReplicasMove(bounded, ReplicasReason.MAX_REPLICAS, why)
    if bounded > replicas:
        why = f"minReplicas is {settings.min_replicas}"
        return ReplicasMove(bounded, ReplicasReason.MIN_REPLICAS, why)
    return None


def _up(seen: ReplicasInput, wanted: int, why: str) -> ReplicasMove:
    granted = clamp_replicas(wanted, seen.settings)
    if granted <= seen.replicas:
        why = f"{why}, but maxReplicas is {seen.settings.max_replicas}"
        return ReplicasMove(seen.replicas, ReplicasReason.MAX_REPLICAS, why)
    return ReplicasMove(granted, ReplicasReason.QUEUE_DEPTH, why)


def _down(seen: ReplicasInput, now: float) -> ReplicasMove:
    n, settings = seen.replicas, seen.settings
    if n <= settings.min_replicas:
        return ReplicasMove(n, ReplicasReason.MIN_REPLICAS, "the count is at its minimum")
    if seen.spare_since is None:
        return ReplicasMove(n, ReplicasReason.STEADY, "the replicas are needed, none more")
    until = seen.spare_since + settings.stabilization_seconds
    if now < until:
        why = f"one less would do, and must for {settings.stabilization_seconds} s"
        return ReplicasMove(n, ReplicasReason.STABILIZING, why, hold_until=until)
    allowed = max(1, (n + len(seen.downs)) * settings.max_percent_per_minute // 100)
    if len(seen.downs) >= allowed:
        why = f"one less would do, but {settings.max_percent_per_minute} % a minute is the limit"
        until = seen.downs[-allowed] + MINUTE
        return ReplicasMove(n, ReplicasReason.RATE_LIMITED, why, hold_until=until)
    why = f"one less was enough for {settings.stabilization_seconds} s"
    return ReplicasMove(n - 1, ReplicasReason.SPARE_CAPACITY, why)
