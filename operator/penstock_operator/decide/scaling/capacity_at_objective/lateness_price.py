"""What the pool's own clients got, and the price that late requests have by it. Pure.

Forecast, chain and noise are models; what was late is a fact, counted by the pods. Each tick moves the price by what
was late beyond the share allowed, so that in the long run no more is late than that, whatever the traffic
(Gibbs and Candes 2021, "Adaptive conformal inference under distribution shift": a quantile there, a price here).

The count that is worth its price: replicas cost, late requests cost, and the demand is not known. Pure.

The count minimises n + price * E[demand * share late], both in replicas, over the demands that may come. So lateness is
bought off where that is cheap, as by a schedule made with the whole trace known; a fixed share of each moment's requests
would be dear where traffic is high, since pods are then many and unequally busy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, isnan

from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import percent
from penstock_operator.decide.scaling.signals.attainment import (
    Attainment,
    Objectives,
    advance,
    is_new,
)
from penstock_operator.observed import PodSample, PoolSignals, is_measured, measured

ALLOWED_SHARE = 0.006
"""Share of requests that may be late in the long run: the objective's 1 %, and something to spare."""
INITIAL_PRICE = 40.0
"""Of all requests of a moment being late, in replicas for each replica's worth of demand. It begins on the safe side:
traffic just met has not shown its bursts yet, and the price falls slowly while none comes."""
MIN_PRICE, MAX_PRICE = 12.0, 80.0
PRICE_STEP = 0.05
"""The price's logarithm moves by this for each second's worth of requests that were late beyond ALLOWED."""
MAX_LATE_SECONDS = 2.0
"""In one tick: a stall says no more than that."""
TYPICAL_SECONDS = 600.0
"""Of the smoothing of the pool's rate, by which a second's worth of requests is reckoned."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """The pods' counts, the rate that is usual, and the price."""

    counted: Attainment = field(default_factory=Attainment)
    typical: float | None = None
    """Requests a second."""
    time: float | None = None
    lateness_price: float = field(default_factory=lambda: INITIAL_PRICE)


def count_late(
    before: Lateness, signals: PoolSignals, objective_milliseconds: int | None, now: float
) -> tuple[Lateness, float | None]:
    """Return the counts after this round, and how many seconds' worth of requests were late beyond ALLOWED.

    Negative where fewer were late; None where the pods do not tell, or there is no objective.
    """
    if objective_milliseconds is None:
        return Lateness(), None
    told = [one for one in signals.samples if is_new(before.counted, one) and _sound(one)]
    counted = advance(before.counted, told, Objectives(objective_milliseconds))
    total = counted.total - before.counted.total
    if before.time is None or now <= before.time or total <= 0:
        time = now if before.time is None else before.time
        return replace(before, counted=counted, time=time), 0.0 if counted.last else None
    passed = now - before.time
    rate, share = total / passed, 1 - exp(-passed / TYPICAL_SECONDS)
    typical = rate if before.typical is None else before.typical + share * (rate - before.typical)
    late = total - (counted.good - before.counted.good)
    after = replace(before, counted=counted, typical=typical, time=now)
    return after, (late - ALLOWED_SHARE * total) / typical


def _sound(sample: PodSample) -> bool:
    """Return whether every count is one: what is not would stay in the sums for ever."""
    if measured(sample.requests_settled) is None:
        return False
    return all(
        is_measured(count) and not isnan(bound) for bound, count in sample.request_duration_buckets
    )


def reprice(before: Lateness, late_seconds: float) -> Lateness:
    """Return the lateness with its price moved by so many seconds' worth of requests late beyond ALLOWED."""
    moved = before.lateness_price * exp(PRICE_STEP * min(late_seconds, MAX_LATE_SECONDS))
    return replace(before, lateness_price=min(max(moved, MIN_PRICE), MAX_PRICE))


LateShare = Callable[[float], Mapping[int, float]]
"""Pods -> utilisation in percent -> share of requests later than the objective."""
Demands = Sequence[tuple[float, float]]
"""(probability, demand in replicas' whole capacity); the probabilities add up to 1."""
COARSE, FINE = 8, 4
"""A step of the search is an eighth of the least count, then a quarter of that."""
MAX_STEPS = 32


def cheapest_count(demands: Demands, least: float, price: float, late: LateShare) -> float:
    """Return the count worth its price, in parts of a replica, at least `least`."""
    step = max(least, 1.0) / COARSE
    best = _search(demands, price, late, [least + step * i for i in range(MAX_STEPS)])
    around = [best + step * (i - FINE) / FINE for i in range(1, 2 * FINE)]
    return _search(demands, price, late, [best, *(one for one in around if one >= least)])


def _search(demands: Demands, price: float, late: LateShare, counts: Sequence[float]) -> float:
    """Return the cheapest of some counts; those that alone cost more than the best are not looked at."""
    best, cheapest = counts[0], _cost(demands, price, late, counts[0])
    for count in counts[1:]:
        if count < cheapest and (cost := _cost(demands, price, late, count)) < cheapest:
            best, cheapest = count, cost
    return best


def _cost(demands: Demands, price: float, late: LateShare, count: float) -> float:
    share, lateness = late(count), 0.0
    for chance, demand in demands:
        lateness += chance * demand * share[percent(demand / count)]
    return count + price * lateness
