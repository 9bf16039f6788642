"""The price of late requests, learned from the pods' counts, and the count that is cheapest at this price. Pure.

Forecast, table and noise are models; late requests are counted. Each tick changes the price by the requests that were late
beyond the allowed share, so that in the long run no larger share is late, whatever the traffic
(Gibbs and Candes 2021, "Adaptive conformal inference under distribution shift": a quantile there, a price here).

The count minimizes n + price * E[demand * share late], both in replicas, over the distribution of demands. So lateness is
avoided where that is cheap, as in a schedule made with the whole trace known; a fixed share at every moment would be dear in
high traffic, when pods are many and unequally busy.

Price and allowed share are stored as under an objective of 99 percent. Under another one lateness counts `strictness` times: latencies have
a nearly exponential tail, so the price at which a share is late is inverse to that share.
"""

from collections.abc import Sequence
from math import exp, isnan
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.latency.pooled import LateSharesByPods
from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import percent
from penstock_operator.decide.scaling.signals.attainment import (
    Attainment,
    Objectives,
    advance,
    is_new,
)
from penstock_operator.decide.spec.objectives import LATE_SHARE
from penstock_operator.measured import is_measured, measured
from penstock_operator.observed import PodSample, PoolSignals

ALLOWED_SHARE = 0.006
"""Allowed share of late requests in the long run under an objective of 99 percent: its 1 %, with a margin."""
INITIAL_PRICE = 40.0
"""Price of all requests being late, in replicas per replica's worth of demand. The initial value is conservative: new traffic
has not shown its bursts yet, and the price falls slowly without any."""
MIN_PRICE, MAX_PRICE = 12.0, 80.0
PRICE_STEP = 0.05
"""Change of the price's logarithm per second's worth of requests late beyond `ALLOWED_SHARE`."""
MAX_LATE_SECONDS = 2.0
"""Maximum counted lateness of one tick, in seconds' worth of requests, which limits the effect of a stall."""
TYPICAL_SECONDS = 600.0
"""Smoothing time of the pool's typical rate, which defines a second's worth of requests."""


class Lateness(NamedTuple):
    """Counts of the pods, the typical rate, and the price of lateness."""

    lateness_price: float
    counted: Attainment = Attainment()
    typical: float | None = None
    """Requests a second."""
    time: float | None = None


def strictness(late_share: float) -> float:
    """Return how many times stricter an objective is than 99 percent, for the share of requests that may miss it."""
    return LATE_SHARE / late_share


def late_beyond(late: float, total: float, late_share: float) -> float:
    """Return how many of `late` requests exceed the allowed share of `total`, as under an objective of 99 percent."""
    return late * strictness(late_share) - ALLOWED_SHARE * total


def late_seconds(
    before: Lateness, late: float, total: float, late_share: float, now: float
) -> tuple[Lateness, float]:
    """Return the lateness at `now`, later than `before`, and `late_beyond` in seconds' worth of requests."""
    passed = now - (before.time or 0.0)
    rate, share = total / passed, 1 - exp(-passed / TYPICAL_SECONDS)
    typical = rate if before.typical is None else before.typical + share * (rate - before.typical)
    beyond = late_beyond(late, total, late_share)
    return before._replace(typical=typical, time=now), beyond / typical


def count_late(
    before: Lateness,
    signals: PoolSignals,
    objectives: Objectives,
    now: float,
) -> tuple[Lateness, float | None]:
    """Return the counts after this round, and its `late_seconds`; None if the pods publish no counts or there is no objective."""
    if not objectives.any:
        return Lateness(INITIAL_PRICE), None
    samples = [
        sample for sample in signals.samples if is_new(before.counted, sample) and _sound(sample)
    ]
    counted = advance(before.counted, samples, objectives)
    total = counted.total - before.counted.total
    if before.time is None or now <= before.time or total <= 0:
        time = now if before.time is None else before.time
        return before._replace(counted=counted, time=time), 0.0 if counted.last else None
    late = total - (counted.good - before.counted.good)
    after, beyond = late_seconds(before, late, total, objectives.late_share, now)
    return after._replace(counted=counted), beyond


def _sound(sample: PodSample) -> bool:
    """Return whether every count is a measurement: an invalid one would stay in the sums."""
    if measured(sample.requests_settled) is None:
        return False
    bounds, counts = (
        zip(*sample.request_duration_buckets, strict=True)
        if sample.request_duration_buckets
        else ((), ())
    )
    return all(map(is_measured, counts)) and not any(map(isnan, bounds))


def reprice(before: Lateness, late: float) -> Lateness:
    """Return the lateness with its price changed by requests late beyond `ALLOWED_SHARE`, in seconds' worth."""
    moved = before.lateness_price * exp(PRICE_STEP * min(late, MAX_LATE_SECONDS))
    return before._replace(lateness_price=min(max(moved, MIN_PRICE), MAX_PRICE))


Demands = Sequence[tuple[float, float]]
"""(probability, demand in replicas' full capacity); the probabilities add up to 1."""
COARSE, FINE = 8, 4
"""Divisors of the search step: an eighth of the smallest count, then a quarter of that."""
MAX_STEPS = 32


def cheapest_count(demands: Demands, minimum: float, price: float, late: LateSharesByPods) -> float:
    """Return the cheapest count, as a fraction, at least `minimum`."""
    step = max(minimum, 1.0) / COARSE
    best = _search(demands, price, late, [minimum + step * i for i in range(MAX_STEPS)])
    around = [best + step * (i - FINE) / FINE for i in range(1, 2 * FINE)]
    return _search(demands, price, late, [best, *(count for count in around if count >= minimum)])


def _search(
    demands: Demands, price: float, late: LateSharesByPods, counts: Sequence[float]
) -> float:
    """Return the cheapest of some counts; a count that alone exceeds the lowest cost is skipped."""
    best, cheapest = counts[0], _cost(demands, price, late, counts[0])
    for count in counts[1:]:
        if count < cheapest and (cost := _cost(demands, price, late, count)) < cheapest:
            best, cheapest = count, cost
    return best


def _cost(demands: Demands, price: float, late: LateSharesByPods, count: float) -> float:
    share, lateness = late(count), 0.0
    for chance, demand in demands:
        lateness += chance * demand * share[percent(demand / count)]
    return count + price * lateness
