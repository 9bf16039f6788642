"""The count that is worth its price: replicas cost, late requests cost, and the demand is not known. Pure.

The count minimises n + price * E[demand * share late], both in replicas, over the demands that may come. So lateness is
bought off where that is cheap, as by a schedule made with the whole trace known; a fixed share of each moment's requests
would be dear where traffic is high, since pods are then many and unequally busy.
"""

from collections.abc import Callable, Mapping, Sequence

from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import percent

LateShare = Callable[[float], Mapping[int, float]]
"""Pods -> utilisation in percent -> share of requests later than the objective."""
Demands = Sequence[tuple[float, float]]
"""(probability, demand in replicas' whole capacity); the probabilities add up to 1."""
COARSE, FINE = 8, 4
"""A step of the search is an eighth of the least count, then a quarter of that."""
MOST_STEPS = 32


def best_count(demands: Demands, least: float, price: float, late: LateShare) -> float:
    """Return the count worth its price, in parts of a replica, at least `least`."""
    step = max(least, 1.0) / COARSE
    best = _search(demands, price, late, [least + step * i for i in range(MOST_STEPS)])
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
