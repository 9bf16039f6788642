"""The second valve: the replica count. Pure.

Up at once, to the most that any need asks for; down only to what no need asked for during the whole hold.
All needs see mu(b_plan), never the live or bridged cap. Where no lateness is predicted, which counts how unequally
pods are busy, they see demand as if all pods were as busy as the busiest.
"""

from dataclasses import dataclass, replace
from math import ceil

from penstock_operator.decide.scaling.capacity_at_objective.demand.load import PoolDemand
from penstock_operator.decide.scaling.reasons import ReplicasMove, ReplicasReason
from penstock_operator.decide.scaling.utilization_band.replicas import (
    MINUTE,
    bounds_only,
    clamp_replicas,
)
from penstock_operator.decide.spec.law_settings import LawSettings

UTILIZATION = 0.85
"""Of the capacity: the most that demand may take."""
BUSY = 0.7
"""Above it nothing is given back."""
DEAD_BAND = 0.08
"""A need must be met with this much to spare before replicas are given back for it."""
DRAIN_SECONDS = 30.0
"""A backlog is to be gone so long after help has come."""
MIN_HOLD_SECONDS = 120.0
HOLD_STARTUPS = 1.0
"""A hold lasts so many start-ups. Not longer: the count that is worth its price insures against a rise already."""


@dataclass(frozen=True, slots=True)
class CountInput:
    """What the count is decided from."""

    settings: LawSettings
    replicas: int
    ready: int
    unmeasured: int
    """Ready pods without a full window: 100 % busy."""
    waiting: float
    """Requests."""
    load: PoolDemand
    imbalance: float
    """k = busiest pod's rate / mean, smoothed."""
    forecast: float
    """Rows a second when a replica asked for now would serve, with headroom."""
    capacity_each: float
    """mu(b_plan), rows a second."""
    capacity_ready: float
    """Of the Ready pods together, each at the cap it obeys."""
    utilization_target: float
    """The largest effective utilisation predicted to meet the objective."""
    startup_seconds: float
    started_seconds: float
    """Over all replicas that start, how long each has been at it, at most a start-up."""
    next_batch: float
    """Rows that the Ready pods' next batches take together."""
    spare_seconds: float | None
    uneven: float = 1.0
    """What demand is taken times: k; 1 where `utilization_target` is predicted, which counts it already."""


@dataclass(frozen=True, slots=True)
class Need:
    """A count that one term asks for."""

    exact: float
    term: ReplicasReason
    why: str

    @property
    def replicas(self) -> int:
        """Return the count, in whole replicas."""
        return ceil(self.exact - 1e-9)

    @property
    def surely(self) -> int:
        """Return the count that would still do if a little more were needed: less is given back only for it."""
        return ceil(self.exact * (1 + DEAD_BAND) - 1e-9)


@dataclass(frozen=True, slots=True)
class Count:
    """What is remembered of the count."""

    begun: float
    """Since when needs are known without a break."""
    needs: tuple[tuple[float, int], ...] = ()
    """(time, most that was asked for), a falling staircase: the maximum since any time."""
    downs: tuple[tuple[float, int], ...] = ()
    """(time, replicas given back), in the last minute."""


def hold_seconds(settings: LawSettings, startup_seconds: float) -> float:
    """Return for how long a lower count must have been enough."""
    asked = settings.guards.stabilization_seconds
    return max(MIN_HOLD_SECONDS, HOLD_STARTUPS * startup_seconds) if asked is None else float(asked)


def utilization(seen: CountInput) -> float:
    """Return rho: demand, times `uneven`, over the Ready pods' capacity; a pod unmeasured is busy."""
    demand = seen.uneven * (seen.load.recent or 0.0) + seen.unmeasured * seen.capacity_each
    return demand / seen.capacity_ready if seen.capacity_ready > 0 else float(demand > 0)


def largest_need(seen: CountInput) -> Need:
    """Return the largest of all needs; the first named wins a tie."""
    return max(needs(seen), key=lambda need: need.exact)


def noted(count: Count, need: int, hold: float, now: float) -> Count:
    """Return the count's memory with what was needed now."""
    kept = tuple(
        (when, asked) for when, asked in count.needs if asked > need and now - when <= hold
    )
    return replace(count, needs=(*kept, (now, need)))


def next_count(count: Count, seen: CountInput, need: Need, now: float) -> ReplicasMove:
    """Return the wanted count, and what bound it."""
    settings, n = seen.settings, seen.replicas
    bounded = bounds_only(settings, n)
    if bounded is not None:
        return bounded
    if need.replicas > n:
        granted = clamp_replicas(need.replicas, settings)
        if granted > n:
            return ReplicasMove(granted, need.term, need.why)
        why = f"{need.why}, but maxReplicas is {settings.max_replicas}"
        return ReplicasMove(n, ReplicasReason.MAX_REPLICAS, why)
    return _down(count, seen, need, now)


def _down(count: Count, seen: CountInput, need: Need, now: float) -> ReplicasMove:
    settings, n = seen.settings, seen.replicas
    if n <= settings.min_replicas:
        return ReplicasMove(n, ReplicasReason.MIN_REPLICAS, "the count is at its minimum")
    if need.replicas >= n:
        return ReplicasMove(n, ReplicasReason.STEADY, f"the replicas are needed: {need.why}")
    if (busy := _busy(seen)) is not None:
        return busy
    return _given_back(count, seen, need, now)


def _busy(seen: CountInput) -> ReplicasMove | None:
    """Return what holds the count while the replicas are busy: the law's share, or the user's lower one."""
    low, busy = seen.settings.guards.low_percent, utilization(seen)
    share, term = BUSY, ReplicasReason.STEADY
    if low is not None and low / 100 < BUSY:
        share, term = low / 100, ReplicasReason.LOW_PERCENT
    if busy < share:
        return None
    why = f"the replicas are {100 * busy:.0f} % busy, not under {100 * share:.0f} %"
    return ReplicasMove(seen.replicas, term, why)


def _given_back(count: Count, seen: CountInput, need: Need, now: float) -> ReplicasMove:
    settings, n = seen.settings, seen.replicas
    hold = hold_seconds(settings, seen.startup_seconds)
    target = max([asked for when, asked in count.needs if now - when <= hold], default=n)
    target = max(target + seen.unmeasured, settings.min_replicas)
    since = max([when for when, asked in count.needs if asked >= n], default=count.begun)
    since = max(since, count.begun)
    if target >= n or now - since < hold:
        why = f"{need.replicas} would do, and must for {hold:.0f} s"
        return ReplicasMove(n, ReplicasReason.STABILIZING, why, hold_until=since + hold)
    given = sum(number for _, number in count.downs)
    allowed = max(1, (n + given) * settings.max_percent_per_minute // 100) - given
    if allowed <= 0:
        why = f"{target} would do, but {settings.max_percent_per_minute} % a minute is the limit"
        until = count.downs[0][0] + MINUTE
        return ReplicasMove(n, ReplicasReason.RATE_LIMITED, why, hold_until=until)
    why = f"{target} were enough for {hold:.0f} s"
    return ReplicasMove(max(target, n - allowed), ReplicasReason.SPARE_CAPACITY, why)


def needs(seen: CountInput) -> list[Need]:
    """Return what each term asks for."""
    guards, recent = seen.settings.guards, seen.load.recent or 0.0
    share = min(UTILIZATION, seen.utilization_target)
    uneven = (
        f", the busiest of which has {seen.uneven:.2f} times the mean" if seen.uneven > 1 else ""
    )
    asked = [
        _need(
            seen.uneven * seen.forecast / (share * seen.capacity_each),
            ReplicasReason.FORECAST,
            f"{seen.forecast:.1f} rows/s are expected in {seen.startup_seconds:.0f} s,"
            f" {100 * share:.0f} % of {seen.capacity_each:.1f} a replica{uneven}",
        ),
        _need(
            seen.uneven * recent / (UTILIZATION * seen.capacity_each),
            ReplicasReason.DEMAND,
            f"{recent:.1f} rows/s come now, {100 * UTILIZATION:.0f} % of {seen.capacity_each:.1f} a replica{uneven}",
        ),
        _backlog(seen, recent),
    ]
    panic = _panic(seen)
    if panic is not None:
        asked.append(panic)
    if guards.target_per_replica is not None:
        why = f"{seen.waiting:.0f} requests wait, over {guards.target_per_replica} per replica"
        asked.append(
            _need(seen.waiting / guards.target_per_replica, ReplicasReason.QUEUE_DEPTH, why)
        )
    if guards.high_percent is not None:
        why = f"{recent:.1f} rows/s come now, {guards.high_percent} % of {seen.capacity_each:.1f} a replica"
        wanted = recent * seen.imbalance / (guards.high_percent / 100 * seen.capacity_each)
        asked.append(_need(wanted, ReplicasReason.HIGH_PERCENT, why))
    return asked


def _backlog(seen: CountInput, recent: float) -> Need:
    """The backlog there will be when help comes, to be drained in 30 s.

    What starts already will have served for as long as it has been at it: it is not asked for twice.
    """
    growth = (recent - seen.capacity_ready) * seen.startup_seconds
    growth -= seen.started_seconds * seen.capacity_each
    waiting = max(seen.load.backlog + growth, 0.0)
    why = f"{waiting:.0f} rows will wait when a replica has started"
    if waiting <= seen.next_batch:
        return Need(0.0, ReplicasReason.BACKLOG, why)
    wanted = (recent + waiting / DRAIN_SECONDS) / seen.capacity_each
    return _need(wanted, ReplicasReason.BACKLOG, why)


def _panic(seen: CountInput) -> Need | None:
    """More waits than half the objective can serve: believe the last scrape at once."""
    if seen.spare_seconds is None or seen.capacity_ready <= 0:
        return None
    wait = (seen.load.backlog - seen.next_batch) / seen.capacity_ready
    if wait <= seen.spare_seconds / 2:
        return None
    newest = max(seen.load.newest or 0.0, seen.load.recent or 0.0)
    why = f"{seen.load.backlog:.0f} rows wait, {wait:.1f} s of work, and {newest:.1f} rows/s come"
    return _need(newest / (UTILIZATION * seen.capacity_each), ReplicasReason.PANIC, why)


def _need(replicas: float, term: ReplicasReason, why: str) -> Need:
    return Need(min(max(replicas, 0.0), 1e6), term, why)
