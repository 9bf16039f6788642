"""Whole replicas out of shares: greedily to where weight times need is largest, a device at a time. Pure.

The worth of a pool's next replica is weight * P(demand > served) per device, over what the pool already has
(Webster's method, so that what pools hold goes as their weights). P is 1 up to the need, and its fraction for
the last replica. Rounds: floors; needs up to the fair share; needs beyond it, where the others cannot use what is
left; then what is wanted without a need. A replica that a pool has already is worth 10 % more to it.

What the cluster can place, where a budget grants more: found out by pods that wait for a device. Pure.

While such pods are there, no more than the devices that bound pods hold can be had. One replica too many is left
to wait, at the pool that needs it most: it starts by itself when there is room, tells this operator so, and is
what a cluster autoscaler goes by.

Weighted shares of one amount: max-min fair, floors first, nobody above his demand. Pure.

Water filling (Bertsekas and Gallager, Data Networks, 6.5.2), with weights: share = clamp(level * weight, floor,
demand), at the level at which the shares add up to the amount.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from penstock_operator.decide.ledger import LimitKey, Pressure, QuotaRequest


@dataclass(frozen=True, slots=True)
class Apportionment:
    """One pool's part in a division, in devices."""

    weight: float
    floor: float
    demand: float


def fair_shares(parts: Sequence[Apportionment], amount: float) -> list[float]:
    """Return each part's share; floors that do not fit are themselves shared by weight."""
    if sum(part.demand for part in parts) <= amount:
        return [part.demand for part in parts]
    if sum(part.floor for part in parts) > amount:
        parts = [Apportionment(part.weight, 0.0, part.floor) for part in parts]
    level = _level(parts, amount)
    return [_at(part, level) for part in parts]


def _at(part: Apportionment, level: float) -> float:
    return min(max(level * part.weight, part.floor), part.demand)


def _level(parts: Sequence[Apportionment], amount: float) -> float:
    """Return the level at which the shares, a piecewise linear sum, add up to `amount`."""
    bends = sorted(
        {part.floor / part.weight for part in parts} | {part.demand / part.weight for part in parts}
    )
    low, high = 0, len(bends) - 1
    while low < high:
        middle = (low + high) // 2
        if sum(_at(part, bends[middle]) for part in parts) < amount:
            low = middle + 1
        else:
            high = middle
    top = bends[low]
    bottom = bends[low - 1] if low else 0.0
    at_top = sum(_at(part, top) for part in parts)
    at_bottom = sum(_at(part, bottom) for part in parts)
    if at_top <= at_bottom:
        return top
    return bottom + (top - bottom) * max(amount - at_bottom, 0.0) / (at_top - at_bottom)


INCUMBENCY = 1.1
Limits = Mapping[LimitKey, int]
"""Devices a budget, or as many of it as the cluster places."""
Counts = Mapping[str, int]
"""Replicas by pool."""


def budgets_of(claim: QuotaRequest, limits: Limits) -> list[LimitKey]:
    """Return the limits that bind a claim."""
    keys: list[LimitKey] = []
    for policy in claim.policies:
        keys += (policy, claim.resource), (policy, claim.resource, claim.placement)
    return [key for key in keys if key in limits]


def joined(
    claims: Collection[QuotaRequest], limits: Limits, keys: Collection[LimitKey]
) -> frozenset[LimitKey]:
    """Return `keys`, and the limits that are divided together with them since they share pools, however remotely."""
    found, news = frozenset[LimitKey](), frozenset(keys)
    while news:
        found |= news
        bound = [frozenset(budgets_of(one, limits)) for one in claims]
        news = frozenset[LimitKey]().union(*(mine for mine in bound if mine & found)) - found
    return found


def divide(
    claims: Sequence[QuotaRequest], limits: Limits, before: Counts, floors: Counts
) -> dict[str, int]:
    """Return the replicas of each claim; all budgets hold at once.

    `before` are the counts held so far, `floors` what comes first (at most what is wanted).
    """
    if not contended(claims, limits):
        return {one.uid: one.requested for one in claims}
    shares = _shares(claims, limits, floors)
    left = dict(limits)
    held = dict.fromkeys((one.uid for one in claims), 0)

    def pour(
        target: Callable[[QuotaRequest], int],
        upto: Callable[[QuotaRequest], float],
        *,
        needed: bool,
    ) -> None:
        _pour(claims, held, left, _Round(target, upto, before, needed=needed))

    pour(lambda one: floors[one.uid], _no_limit, needed=False)
    pour(lambda one: max(one.needed, floors[one.uid]), lambda one: shares[one.uid], needed=True)
    pour(lambda one: max(one.needed, floors[one.uid]), _no_limit, needed=True)
    pour(lambda one: one.requested, _no_limit, needed=False)
    return held


def contended(claims: Sequence[QuotaRequest], limits: Limits) -> bool:
    """Return whether any budget is wanted more of than it has."""
    wanted = dict.fromkeys(limits, 0)
    for one in claims:
        for key in budgets_of(one, limits):
            wanted[key] += one.requested * one.per_replica
    return any(wanted[key] > limits[key] for key in limits)


def fits(claims: Sequence[QuotaRequest], limits: Limits, counts: Counts) -> bool:
    """Return whether all budgets have room for `counts` at once."""
    taken = dict.fromkeys(limits, 0)
    for one in claims:
        for key in budgets_of(one, limits):
            taken[key] += counts[one.uid] * one.per_replica
    return all(taken[key] <= limits[key] for key in limits)


def _no_limit(_: QuotaRequest) -> float:
    return float("inf")


def _shares(claims: Sequence[QuotaRequest], limits: Limits, floors: Counts) -> dict[str, float]:
    """Return each pool's fair share in devices: the least of its budgets'."""
    shares = dict.fromkeys((one.uid for one in claims), float("inf"))
    for key, amount in limits.items():
        members = [one for one in claims if key in budgets_of(one, limits)]
        parts = [_part(one, floors[one.uid]) for one in members]
        for one, share in zip(members, fair_shares(parts, float(amount)), strict=True):
            shares[one.uid] = min(shares[one.uid], share)
    return shares


def _part(one: QuotaRequest, floor: int) -> Apportionment:
    demand = max(one.needed, floor) * one.per_replica
    return Apportionment(float(one.weight), float(floor * one.per_replica), float(demand))


class _Round:
    """One round of the division."""

    def __init__(
        self,
        target: Callable[[QuotaRequest], int],
        upto: Callable[[QuotaRequest], float],
        before: Counts,
        *,
        needed: bool,
    ) -> None:
        self.target = target
        self.upto = upto
        self.before = before
        self.needed = needed

    def worth(self, one: QuotaRequest, held: int) -> float:
        """Return what the next replica is worth, per device and over what is held."""
        chance = min(max(one.need - held, 0.0), 1.0) if self.needed else 1.0
        bonus = INCUMBENCY if held < self.before.get(one.uid, 0) else 1.0
        return one.weight * chance * bonus / ((held + 0.5) * one.per_replica)

    def wants(self, one: QuotaRequest, held: int) -> bool:
        """Return whether the pool takes part with another replica."""
        return held < self.target(one) and held * one.per_replica < self.upto(one) - 1e-9


def _pour(
    claims: Sequence[QuotaRequest], held: dict[str, int], left: dict[LimitKey, int], round_: _Round
) -> None:
    """Hand out replicas, the worthiest first, until nobody wants or fits; equals go by UID."""
    by_uid = {one.uid: one for one in claims}
    heap = [
        (-round_.worth(one, held[one.uid]), one.uid)
        for one in claims
        if round_.wants(one, held[one.uid])
    ]
    heapify(heap)
    while heap:
        _, uid = heappop(heap)
        one = by_uid[uid]
        keys = budgets_of(one, left)
        if any(left[key] < one.per_replica for key in keys):
            continue
        for key in keys:
            left[key] -= one.per_replica
        held[uid] += 1
        if round_.wants(one, held[uid]):
            heappush(heap, (-round_.worth(one, held[uid]), uid))


MEMORY_SECONDS = 60.0
"""A device counts as there for so long after its pod went: the next pod takes a moment to be bound."""


def pressed(before: Pressure | None, *, placed: int, waiting: bool, now: float) -> Pressure | None:
    """Return the pressure with the devices `placed` now; None where the cluster places all that is asked for."""
    if not waiting and (before is None or now - before.seen > MEMORY_SECONDS):
        return None
    held = before.placed if before is not None else ()
    kept = tuple(
        (when, most) for when, most in held if most > placed and now - when <= MEMORY_SECONDS
    )
    seen = now if waiting or before is None else before.seen
    return Pressure(seen, (*kept, (now, placed)))
