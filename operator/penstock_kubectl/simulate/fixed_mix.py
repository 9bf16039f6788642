"""`lowest_mix`: the cheapest fixed mix that attains on a history, as far as a few runs find it. Pure.

Tried are the mixes that are cheapest for a capacity, as the operator chooses them, and each variant alone: small replicas
need more capacity than large ones for the same demand, since their slower batches leave less time to wait. From the cheapest
of these on, one replica more or less of a variant is tried with the fewest of another, until nothing is cheaper.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import ceil

from penstock_kubectl.simulate.savings import lowest_count
from penstock_operator.decide.variants.mix import VariantOffer, mix_within

Counts = Mapping[str, int]
Attains = Callable[[Counts], bool]
PRECISION = 0.02
"""Relative step of the capacity at which the search ends."""
CENT = 1e-9


def lowest_mix(
    attains: Attains, offers: Sequence[VariantOffer], demand: float, most: int
) -> Counts | None:
    """Return the cheapest mix found of at most `most` replicas that attains, for a mean demand in rows a second; None if none does."""

    def suffices(counts: Counts) -> bool:
        return sum(counts.values()) <= most and attains(counts)

    mixes = list(_by_capacity(suffices, offers, demand, most))
    for offer in offers:
        best = min((price(counts, offers) for counts in mixes), default=None)
        limit, need = min(offer.most, most), demand / (offer.capacity or 1.0)
        if best is not None and offer.per_hour:
            limit = min(limit, ceil(best / offer.per_hour - CENT) - 1)
        if limit < max(need, 1):
            continue
        alone = _more_of(offer.name, {each.name: 0 for each in offers})
        counts = alone(lowest_count(lambda count, of=alone: suffices(of(count)), need, limit))  # type: ignore[misc]
        mixes += [counts] if suffices(counts) else []
    if not mixes:
        return None
    return _descended(suffices, offers, most, min(mixes, key=lambda counts: price(counts, offers)))


def price(counts: Counts, offers: Sequence[VariantOffer]) -> float:
    """Return the price of an hour of a mix."""
    return sum(counts[offer.name] * (offer.per_hour or 0.0) for offer in offers)


def _by_capacity(
    suffices: Attains, offers: Sequence[VariantOffer], demand: float, most: int
) -> Iterator[Counts]:
    """Yield the mix of the least capacity that suffices, of those that are cheapest for theirs."""

    def mix(capacity: float) -> Counts:
        return mix_within(most, capacity, offers, {}).counts

    top = sum(each.most * (each.capacity or 0.0) for each in offers)
    low, high = demand, demand
    while not suffices(mix(high)):
        if high >= top:
            return
        low, high = high, min(2 * high, top)
    while high > (1 + PRECISION) * low and mix(low) != mix(high):
        middle = (low + high) / 2
        if suffices(mix(middle)):
            high = middle
        else:
            low = middle
    yield mix(high)


def _descended(
    suffices: Attains, offers: Sequence[VariantOffer], most: int, counts: Counts
) -> Counts:
    """Return a mix that no replica more or less of one variant, with the fewest of another, makes cheaper."""
    for changed, other, step in product(offers, offers, (-1, 1)):
        number = counts[changed.name] + step
        if changed.name == other.name or not 0 <= number <= changed.most or not other.per_hour:
            continue
        rest = {**counts, changed.name: number, other.name: 0}
        left = price(counts, offers) - price(rest, offers)
        affordable = ceil(left / other.per_hour - CENT) - 1
        room = min(other.most, most - sum(rest.values()), affordable)
        cheaper = _more_of(other.name, rest)
        if room < 0 or not suffices(cheaper(room)):
            continue
        fewest = bisect_left(range(room), 1, key=lambda count, of=cheaper: int(suffices(of(count))))  # type: ignore[misc]
        return _descended(suffices, offers, most, cheaper(fewest))
    return counts


def _more_of(name: str, counts: Counts) -> Callable[[int], Counts]:
    return lambda added: {**counts, name: counts[name] + added}
