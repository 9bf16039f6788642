"""The replica count of CapacityAtObjective. Pure.

Up at once, to the largest need; down only to the largest need of the whole hold. All needs use mu(b_plan), never the live cap. Where lateness is not predicted, which accounts for unequally busy pods, demand is scaled as if every pod were as
busy as the busiest.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.demand.load import PoolDemand
from penstock_operator.decide.scaling.law import RequestSpread
from penstock_operator.decide.scaling.reasons import ReplicasMove, ReplicasReason, counted
from penstock_operator.decide.scaling.utilization_band.replicas import (
    bounds_only,
    raised,
    rate_limit,
)
from penstock_operator.decide.spec.law_settings import LawSettings

UTILIZATION = 0.85
"""Maximum share of the capacity for demand."""
DEAD_BAND = 0.08
"""Margin that a lower count must leave above the need."""
MIN_HOLD_SECONDS = 120.0
HOLD_STARTUPS = 1.0
"""Length of a hold in start-ups; the cheapest count already covers a rise of demand."""
SPREAD_UTILIZATION = 0.95
"""Maximum share of the capacity for demand where a router spreads requests: no pod is busier than others."""


def max_utilization(spread: RequestSpread) -> float:
    """Return the maximum share of the capacity for demand."""
    return UTILIZATION if spread is RequestSpread.BY_CONNECTION else SPREAD_UTILIZATION


class CountInput(NamedTuple):
    """Inputs of the count decision."""

    settings: LawSettings
    replicas: int
    unmeasured: int
    """Ready pods without a full window, which count as 100 % busy."""
    waiting: float
    """Waiting requests."""
    load: PoolDemand
    imbalance: float
    """k = busiest pod's rate / mean, smoothed."""
    forecast: float
    """Demand when a replica requested now is Ready, in rows a second, with headroom."""
    capacity_each: float
    """mu(b_plan), rows a second."""
    capacity_ready: float
    """Capacity of the Ready pods, each at its own cap, in rows a second."""
    utilization_target: float
    """The largest effective utilization predicted to meet the objective."""
    startup_seconds: float
    next_batch: float
    """Total rows of the Ready pods' next batches."""
    spare_seconds: float | None
    spread: RequestSpread = RequestSpread.BY_CONNECTION
    uneven: float = 1.0
    """Factor on demand: k; 1 if `utilization_target` is predicted, which includes it already."""
    downs: tuple[tuple[float, int], ...] = ()
    """(time, replicas removed), in the last minute."""


class Need(NamedTuple):
    """The count that one term demands."""

    exact: float
    term: ReplicasReason
    why: str

    @property
    def replicas(self) -> int:
        """Return the count, rounded up."""
        return ceil(self.exact - 1e-9)

    @property
    def with_margin(self) -> int:
        """Return the count with the margin of the dead band, to which the replicas may fall."""
        return ceil(self.exact * (1 + DEAD_BAND) - 1e-9)


Staircase = tuple[tuple[float, float], ...]
"""(time, need), falling: the largest need since any time."""


class Count(NamedTuple):
    """State of the count."""

    begun: float
    """Time since which needs are known without interruption."""
    needs: Staircase = ()


def hold_seconds(settings: LawSettings, startup_seconds: float) -> float:
    """Return the time for which a lower count must suffice before scale-down, in seconds."""
    configured = settings.guards.stabilization_seconds
    return (
        max(MIN_HOLD_SECONDS, HOLD_STARTUPS * startup_seconds)
        if configured is None
        else float(configured)
    )


def utilization(seen: CountInput) -> float:
    """Return rho: demand, times `uneven`, over the Ready pods' capacity; an unmeasured pod counts as busy."""
    demand = seen.uneven * (seen.load.recent or 0.0) + seen.unmeasured * seen.capacity_each
    return demand / seen.capacity_ready if seen.capacity_ready > 0 else float(demand > 0)


def largest_need(needs: Sequence[Need]) -> Need:
    """Return the largest of all needs; of a tie the first."""
    return max(needs, key=lambda need: need.exact)


def staircase(before: Staircase, need: float, hold: float, now: float) -> Staircase:
    """Return the needs of the hold with the present one; the first is the largest."""
    higher = ((when, value) for when, value in before if value > need and now - when <= hold)
    return (*higher, (now, need))


def record_need(count: Count, need: int, hold: float, now: float) -> Count:
    """Return the count's state with the present need."""
    return count._replace(needs=staircase(count.needs, need, hold, now))


def next_count(count: Count, seen: CountInput, need: Need, now: float) -> ReplicasMove:
    """Return the new count and its reason; `count` has the present need."""
    settings, n = seen.settings, seen.replicas
    bounded = bounds_only(settings, n)
    if bounded is not None:
        return bounded
    if need.replicas > n:
        return raised(settings, n, need.replicas, need.term, need.why)
    return _down(count, seen, need, now)


def _down(count: Count, seen: CountInput, need: Need, now: float) -> ReplicasMove:
    settings, n = seen.settings, seen.replicas
    if n <= settings.min_replicas:
        return ReplicasMove(n, ReplicasReason.MIN_REPLICAS, "the count is at its minimum")
    if need.replicas >= n:
        return ReplicasMove(n, ReplicasReason.STEADY, f"the replicas are needed: {need.why}")
    if (busy := _busy(seen)) is not None:
        return busy
    return _released(count, seen, need, now)


def _busy(seen: CountInput) -> ReplicasMove | None:
    """Return the unchanged count if the replicas are busier than the user permits for scale-down."""
    low, busy = seen.settings.guards.low_percent, utilization(seen)
    if low is None or busy < low / 100:
        return None
    why = f"the replicas are {100 * busy:.0f} % busy, at least {low} %"
    return ReplicasMove(seen.replicas, ReplicasReason.LOW_PERCENT, why)


def _released(count: Count, seen: CountInput, need: Need, now: float) -> ReplicasMove:
    settings, n = seen.settings, seen.replicas
    hold = hold_seconds(settings, seen.startup_seconds)
    target = max(int(count.needs[0][1]) + seen.unmeasured, settings.min_replicas)
    since = max([count.begun, *(when for when, needed in count.needs if needed >= n)])
    if target >= n or now - since < hold:
        why = (
            f"{counted(need.replicas, 'suffice')}; scaling down after {hold:.0f} s of stabilization"
        )
        return ReplicasMove(n, ReplicasReason.STABILIZING, why, hold_until=since + hold)
    allowed, limited = rate_limit(settings, n, target, seen.downs)
    if limited is not None:
        return limited
    why = f"{counted(target)} sufficed for {hold:.0f} s"
    return ReplicasMove(max(target, n - allowed), ReplicasReason.SPARE_CAPACITY, why)


def needs(seen: CountInput) -> list[Need]:
    """Return the need of each term."""
    guards, recent = seen.settings.guards, seen.load.recent or 0.0
    share = min(max_utilization(seen.spread), seen.utilization_target)
    limit = "within the objective" if seen.spare_seconds else f"at {100 * share:.0f} % utilization"
    uneven = f"; the busiest has {seen.uneven:.2f} times the mean load" if seen.uneven > 1 else ""
    terms = [
        _need(
            seen.uneven * seen.forecast / (share * seen.capacity_each),
            ReplicasReason.FORECAST,
            f"{seen.forecast:.1f} rows/s forecast in {seen.startup_seconds:.0f} s;"
            f" one replica serves {share * seen.capacity_each:.1f} {limit}{uneven}",
        ),
    ]
    panic = _panic(seen)
    if panic is not None:
        terms.append(panic)
    if guards.target_per_replica is not None:
        why = (
            f"{seen.waiting:.0f} requests are waiting, over {guards.target_per_replica} per replica"
        )
        terms.append(
            _need(seen.waiting / guards.target_per_replica, ReplicasReason.QUEUE_DEPTH, why)
        )
    if guards.high_percent is not None:
        why = f"{recent:.1f} rows/s arrive now; one replica serves {guards.high_percent / 100 * seen.capacity_each:.1f} at {guards.high_percent} % utilization"
        replicas = recent * seen.imbalance / (guards.high_percent / 100 * seen.capacity_each)
        terms.append(_need(replicas, ReplicasReason.HIGH_PERCENT, why))
    return terms


def _panic(seen: CountInput) -> Need | None:
    """Return the need by the last scrape, if the backlog exceeds the capacity of half the objective."""
    if seen.spare_seconds is None or seen.capacity_ready <= 0:
        return None
    wait = (seen.load.backlog - seen.next_batch) / seen.capacity_ready
    if wait <= seen.spare_seconds / 2:
        return None
    newest = max(seen.load.newest or 0.0, seen.load.recent or 0.0)
    why = f"{seen.load.backlog:.0f} rows are waiting ({wait:.1f} s of work) and {newest:.1f} rows/s arrive"
    return _need(newest / (UTILIZATION * seen.capacity_each), ReplicasReason.PANIC, why)


def _need(replicas: float, term: ReplicasReason, why: str) -> Need:
    return Need(min(max(replicas, 0.0), 1e6), term, why)
