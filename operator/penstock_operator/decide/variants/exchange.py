"""`exchange`: the counts to request on the way from the replicas that run to a mix. Pure.

New replicas are requested at once. Replicas that the mix does not contain leave only as far as the Ready ones that stay serve
the demand, the most expensive capacity first; so a replacement is Ready before what it replaces drains. This includes replicas
that miss the objective, which serve requests late, and replicas that start: while the demand grows the cheapest mix changes
from tick to tick, and a start that is given up for another one is lost time.

The last of many starts is slow, and what they replace is paid for until then. So while replicas wait to leave, a few more of
the variants that start are requested, for at most a part of the price of those that wait; the surplus leaves afterwards.
"""

from collections.abc import Mapping, Sequence

from penstock_operator.decide.variants.mix import VariantOffer

STARTS_PER_SPARE = 8
"""Starting replicas of a variant for which one more is requested."""
SPARE_SHARE = 0.25
"""Maximum price of the spares over that of the replicas that wait to leave."""


def exchange(
    demand: float,
    offers: Sequence[VariantOffer],
    target: Mapping[str, int],
    running: Mapping[str, int],
    ready: Mapping[str, int],
) -> dict[str, int]:
    """Return the desired count of each variant; `running` are the present ones, `ready` the Ready replicas among them."""
    counts = {offer.name: max(target[offer.name], running.get(offer.name, 0)) for offer in offers}
    if all(counts[name] == target[name] for name in counts):
        return counts
    served = sum(
        min(ready.get(offer.name, 0), counts[offer.name]) * (offer.capacity or 0.0)
        for offer in offers
    )
    for offer in sorted(offers, key=cost_of_capacity, reverse=True):
        name, capacity = offer.name, offer.capacity or 0.0
        while counts[name] > target[name]:
            is_ready = counts[name] <= ready.get(name, 0)
            loses = capacity if is_ready else 0.0
            starts = capacity > 0 and counts[name] <= offer.most
            if (is_ready or starts) and served - loses < demand * (1 - 1e-9):
                break
            counts[name] -= 1
            served -= loses
    return _with_spares(offers, counts, target, running, ready)


def _with_spares(
    offers: Sequence[VariantOffer],
    counts: dict[str, int],
    target: Mapping[str, int],
    running: Mapping[str, int],
    ready: Mapping[str, int],
) -> dict[str, int]:
    """Return the counts with spares of the variants that start while others wait to leave; spares that start stay."""
    waiting = [offer for offer in offers if counts[offer.name] > target[offer.name]]
    budget = SPARE_SHARE * sum(
        (counts[offer.name] - target[offer.name]) * (offer.per_hour or 0.0) for offer in waiting
    )
    for offer in offers:
        wanted = target[offer.name]
        starting = wanted - ready.get(offer.name, 0)
        if starting <= 0 or not offer.per_hour or offer in waiting:
            continue
        spares = max(starting // STARTS_PER_SPARE, running.get(offer.name, 0) - wanted)
        most = min(wanted // STARTS_PER_SPARE, offer.most - wanted, int(budget / offer.per_hour))
        spares = max(min(spares, most), 0)
        counts[offer.name] += spares
        budget -= spares * offer.per_hour
    return counts


def cost_of_capacity(offer: VariantOffer) -> tuple[bool, float]:
    """Return the order of variants by the price of their capacity; those without a price, then those without capacity."""
    if not offer.capacity:
        return True, float("inf")
    if offer.per_hour is None:
        return True, -offer.capacity
    return False, offer.per_hour / offer.capacity
