"""`exchange`: the counts to request on the way from the replicas that run to a mix. Pure.

New replicas are requested at once. Replicas that the mix does not contain leave only as far as the Ready ones that stay serve
the demand, the most expensive capacity first; so a replacement is Ready before what it replaces drains.
"""

from collections.abc import Mapping, Sequence

from penstock_operator.decide.variants.mix import VariantOffer


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
    for offer in sorted(offers, key=_cost_of_capacity, reverse=True):
        name, capacity = offer.name, offer.capacity or 0.0
        while counts[name] > target[name]:
            loses = capacity if counts[name] <= ready.get(name, 0) else 0.0
            if loses and served - loses < demand * (1 - 1e-9):
                break
            counts[name] -= 1
            served -= loses
    return counts


def _cost_of_capacity(offer: VariantOffer) -> tuple[bool, float]:
    if not offer.capacity:
        return True, float("inf")
    if offer.per_hour is None:
        return True, -offer.capacity
    return False, offer.per_hour / offer.capacity
