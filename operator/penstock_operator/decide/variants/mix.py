"""`cheapest_mix`: how many replicas of each variant serve a demand at the least cost. Pure.

Every variant keeps its bounds. What `minReplicas` of all variants do not serve is covered by the cheapest whole replicas
(`cover.py`). Four rules go beyond prices:

- A replica that is not running yet costs its start in addition, spread over `PAYBACK_SECONDS`. So a mix is exchanged for
  another one only if the saving pays its starts within that time, and of equally expensive mixes the one that runs stays.
- A variant without a price takes only what priced ones cannot serve; there, the fewest replicas are the best mix. No price is
  ever estimated.
- A variant that cannot meet the objective gets no more than its minimum.
- A variant that was never measured gets one replica, as a probe, if the measured ones cannot serve the demand, or if a
  replica of it costs less than what the mix spends above the minimums, which it might replace. The runtime measures its
  curve while it loads, so a probe lasts one start: afterwards the variant competes like the others, and its curve is kept.
  Where they cost little of what they might replace, there are `MAX_PROBES`, since the first of several starts ends sooner.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from penstock_operator.decide.scaling.reasons import counted
from penstock_operator.decide.variants.cover import ReplicaGroup, cheapest_cover

PAYBACK_SECONDS = 3600.0
"""Time within which the saving of another mix must pay the starts of its replicas."""
START_SECONDS = 120.0
"""Start of a replica whose variant has none measured."""
ROUNDING = 1e-6
"""Share of the demand that is not worth a replica."""
FEES = 16
"""Fees that are tried, each twice the one before, from the lowest price on."""
MAX_PROBES = 2
PROBES_SHARE = 0.1
"""Maximum price of the probes of a variant, beyond the first, over what the mix spends above the minimums."""
TOLERANCE = 0.03
"""Price over that of the cheapest mix for which a mix near the present one stays."""
MIN_PRICE = 1e-9
"""Price of a replica that costs nothing, so that fewer of them are still better."""


class VariantOffer(NamedTuple):
    """One variant, as the mix sees it."""

    name: str
    capacity: float | None
    """Rows a second of one replica at the objective; 0: it cannot meet it; None: not measured yet."""
    per_hour: float | None
    """Price of a replica-hour; None: unknown."""
    least: int
    """minReplicas."""
    most: int
    """maxReplicas."""
    start_seconds: float = START_SECONDS
    """From the decision for a replica until it is Ready."""


class MixTerm(StrEnum):
    """What set the count of a variant."""

    CHEAPEST = "Cheapest"
    COSTLIER = "Costlier"
    MIN_REPLICAS = "MinReplicas"
    MAX_REPLICAS = "MaxReplicas"
    OBJECTIVE_INFEASIBLE = "ObjectiveInfeasible"
    PRICE_UNKNOWN = "PriceUnknown"
    UNMEASURED = "Unmeasured"
    PROBE = "Probe"


class MixReason(NamedTuple):
    """Why a variant has its count."""

    term: MixTerm
    why: str
    """A clause."""


class Mix(NamedTuple):
    """Replicas of each variant."""

    counts: Mapping[str, int]
    unmet: float
    """Rows a second that no permitted mix serves; 0 if the demand is met."""
    per_hour: float | None
    """Price of an hour; None if the price of a replica in it is unknown."""
    reasons: Mapping[str, MixReason]
    """By variant."""


def cheapest_mix(demand: float, offers: Sequence[VariantOffer], running: Mapping[str, int]) -> Mix:
    """Return the cheapest mix for `demand` rows a second; `running` is the present desired count of each variant."""
    counts = {offer.name: offer.least for offer in offers}
    usable = [offer for offer in offers if offer.capacity]
    priced = [offer for offer in usable if offer.per_hour is not None]
    unmet = unmet_demand(demand, usable, counts)
    for group in (priced, [offer for offer in usable if offer.per_hour is None]):
        _cover(counts, unmet, group, running)
        unmet = unmet_demand(demand, usable, counts)
    above = sum((counts[offer.name] - offer.least) * (offer.per_hour or 0.0) for offer in priced)
    for offer in offers:
        if offer.capacity is None and _is_probed(offer, unmet, above, running):
            counts[offer.name] = max(offer.least, min(_probes(offer, above), offer.most))
    reasons = {offer.name: _reason(offer, counts[offer.name], unmet) for offer in offers}
    return Mix(counts, unmet, _per_hour(offers, counts), reasons)


def mix_within(
    most: int, demand: float, offers: Sequence[VariantOffer], running: Mapping[str, int]
) -> Mix:
    """Return a cheap mix of at most `most` replicas for `demand`; one of few, large replicas where none is found.

    A fee on each replica, which grows until the mix is small enough, makes large replicas worth their price.
    """
    mix = cheapest_mix(demand, offers, running)
    fee = min(
        (offer.per_hour for offer in offers if offer.capacity and offer.per_hour), default=0.0
    )
    for _ in range(FEES if fee else 0):
        if sum(mix.counts.values()) <= most:
            break
        charged = [
            offer if offer.per_hour is None else offer._replace(per_hour=offer.per_hour + fee)
            for offer in offers
        ]
        counts, unmet = cheapest_mix(demand, charged, running)[:2]
        reasons = {offer.name: _reason(offer, counts[offer.name], unmet) for offer in offers}
        mix = Mix(counts, unmet, _per_hour(offers, counts), reasons)
        fee *= 2
    return mix


def steady_mix(
    most: int,
    demand: float,
    offers: Sequence[VariantOffer],
    running: Mapping[str, int],
    before: Mapping[str, int],
) -> Mix:
    """Return a mix near the one `before` if its price is within `TOLERANCE` of the cheapest: one that only adds or removes replicas.

    Variants of nearly equal price otherwise take turns whenever the demand changes by a part of a replica.
    Replicas that cost nothing are not kept, since no price would ever let them leave.
    """
    cheapest = mix_within(most, demand, offers, running)
    if cheapest.per_hour is None or any(offer.capacity is None for offer in offers):
        return cheapest
    present = {
        offer.name: max(offer.least, min(before.get(offer.name, 0), offer.most)) for offer in offers
    }
    grown = [offer._replace(least=present[offer.name]) if offer.per_hour else offer for offer in offers]  # fmt: skip
    shrunk = [offer._replace(most=present[offer.name]) for offer in offers]
    for near in (grown, shrunk):
        counts, unmet, per_hour, _ = mix_within(most, demand, near, running)
        is_near = per_hour is not None and per_hour <= (1 + TOLERANCE) * cheapest.per_hour
        if is_near and unmet <= cheapest.unmet and sum(counts.values()) <= most:
            reasons = {offer.name: _reason(offer, counts[offer.name], unmet) for offer in offers}
            return Mix(counts, unmet, per_hour, reasons)
    return cheapest


def unmet_demand(demand: float, usable: Iterable[VariantOffer], counts: Mapping[str, int]) -> float:
    """Return the rows a second of `demand` that `counts` do not serve."""
    left = demand - sum(counts[offer.name] * (offer.capacity or 0.0) for offer in usable)
    return left if left > ROUNDING * demand else 0.0


def _cover(
    counts: dict[str, int],
    left: float,
    group: Sequence[VariantOffer],
    running: Mapping[str, int],
) -> None:
    """Add replicas of the group to `counts` for the demand that is left: those that run, and new ones at their higher price."""
    segments, names = list[ReplicaGroup](), list[str]()
    for offer in group:
        room = max(offer.most - offer.least, 0)
        kept = min(max(running.get(offer.name, 0) - offer.least, 0), room)
        price = 1.0 if offer.per_hour is None else max(offer.per_hour, MIN_PRICE)
        for number, each in ((kept, price), (room - kept, price * _with_start(offer))):
            if number:
                segments.append(ReplicaGroup(offer.capacity or 0.0, each, number))
                names.append(offer.name)
    for name, count in zip(names, cheapest_cover(left, segments), strict=True):
        counts[name] += count


def _with_start(offer: VariantOffer) -> float:
    return 1 + max(offer.start_seconds, 1.0) / PAYBACK_SECONDS


def _is_probed(offer: VariantOffer, unmet: float, above: float, running: Mapping[str, int]) -> bool:
    """Return whether a replica of an unmeasured variant is worth its start; `above` is the cost above the minimums."""
    if unmet:
        return True
    if offer.per_hour is None:
        return False
    return offer.per_hour * (1 if running.get(offer.name) else _with_start(offer)) < above


def _probes(offer: VariantOffer, above: float) -> int:
    """Return the replicas that measure a variant."""
    if not offer.per_hour:
        return 1
    return min(1 + int(PROBES_SHARE * above / offer.per_hour), MAX_PROBES)


def _per_hour(offers: Sequence[VariantOffer], counts: Mapping[str, int]) -> float | None:
    used = [offer for offer in offers if counts[offer.name]]
    prices = [counts[offer.name] * offer.per_hour for offer in used if offer.per_hour is not None]
    return sum(prices) if len(prices) == len(used) else None


def _reason(offer: VariantOffer, count: int, unmet: float) -> MixReason:
    if offer.capacity is None:
        if count > offer.least:
            return MixReason(
                MixTerm.PROBE, f"{counted(count)} to measure its capacity at the objective"
            )
        return MixReason(MixTerm.UNMEASURED, "its capacity at the objective is not measured yet")
    if not offer.capacity:
        why = "no batch is short enough for the objective"
        return MixReason(MixTerm.OBJECTIVE_INFEASIBLE, why)
    served = f"a replica serves {offer.capacity:.1f} rows/s at the objective"
    if offer.per_hour is None:
        why = f"{served} at an unknown price: it serves what priced variants cannot"
        return MixReason(MixTerm.PRICE_UNKNOWN, why)
    why = f"{served} at {_price(offer.per_hour / offer.capacity / 3.6)} per 1,000 rows"
    if count > offer.least:
        full = count >= offer.most and unmet > 0
        return MixReason(MixTerm.MAX_REPLICAS if full else MixTerm.CHEAPEST, why)
    return MixReason(MixTerm.MIN_REPLICAS if count else MixTerm.COSTLIER, why)


def _price(value: float) -> str:
    return f"{value:.4g}"
