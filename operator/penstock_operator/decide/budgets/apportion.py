"""Division of devices into replicas, weighted max-min shares, and what the cluster places. Pure.

Replicas are granted greedily, each to the pool with the largest weight * P(demand > served) per device over
the replicas it has already (Webster's method, so that counts are proportional to weights). P is 1 below the need,
and the fractional part of the need for the last replica. Rounds: floors; needs up to the fair share; needs beyond
it from what other pools leave over; then requests without need. A replica that a pool has already counts 10 % more.

Fair shares are max-min fair by water filling (Bertsekas and Gallager, Data Networks, 6.5.2) with weights:
share = clamp(level * weight, floor, demand), at the level at which the shares add up to the amount.

Pods that wait for a device show that the cluster places less than a budget grants. The limit is then the number of
devices that bound pods use. One extra replica stays pending, in the pool that needs it most: it starts as soon as
there is room, which ends the shortage, and a cluster autoscaler adds nodes for it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from penstock_operator.decide.quota_ledger import LimitKey, Pressure, QuotaRequest


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
"""Devices of each budget, or those of it that the cluster places."""
Counts = Mapping[str, int]
"""Replicas by pool."""


def limits_binding(request: QuotaRequest, limits: Limits) -> list[LimitKey]:
    """Return the limits that bind a request."""
    keys: list[LimitKey] = []
    for policy in request.policies:
        keys += (policy, request.resource), (policy, request.resource, request.placement)
    return [key for key in keys if key in limits]


def joined(
    requests: Collection[QuotaRequest], limits: Limits, keys: Collection[LimitKey]
) -> frozenset[LimitKey]:
    """Return `keys` and every limit that shares pools with them, directly or through other limits."""
    reached, news = frozenset[LimitKey](), frozenset(keys)
    while news:
        reached |= news
        bound = [frozenset(limits_binding(request, limits)) for request in requests]
        news = frozenset[LimitKey]().union(*(own for own in bound if own & reached)) - reached
    return reached


def divide(
    requests: Sequence[QuotaRequest], limits: Limits, before: Counts, floors: Counts
) -> dict[str, int]:
    """Return the replicas of each request within all limits.

    `before` are the counts so far, `floors` are granted first (at most the requested count).
    """
    if not contended(requests, limits):
        return {request.uid: request.requested for request in requests}
    shares = _shares(requests, limits, floors)
    left = dict(limits)
    granted = dict.fromkeys((request.uid for request in requests), 0)

    def grant(
        target: Callable[[QuotaRequest], int],
        upto: Callable[[QuotaRequest], float],
        *,
        needed: bool,
    ) -> None:
        _grant_round(requests, granted, left, _Round(target, upto, before, needed=needed))

    def needed_replicas(request: QuotaRequest) -> int:
        return max(request.needed, floors[request.uid])

    grant(lambda request: floors[request.uid], _no_limit, needed=False)
    grant(needed_replicas, lambda request: shares[request.uid], needed=True)
    grant(needed_replicas, _no_limit, needed=True)
    grant(lambda request: request.requested, _no_limit, needed=False)
    return granted


def contended(requests: Sequence[QuotaRequest], limits: Limits) -> bool:
    """Return whether more is requested of any limit than it has."""
    counts = {request.uid: request.requested for request in requests}
    return not fits(requests, limits, counts)


def fits(requests: Sequence[QuotaRequest], limits: Limits, counts: Counts) -> bool:
    """Return whether `counts` fit into all limits together."""
    taken = dict.fromkeys(limits, 0)
    for request in requests:
        for key in limits_binding(request, limits):
            taken[key] += counts[request.uid] * request.per_replica
    return all(taken[key] <= limits[key] for key in limits)


def _no_limit(_: QuotaRequest) -> float:
    return float("inf")


def _shares(requests: Sequence[QuotaRequest], limits: Limits, floors: Counts) -> dict[str, float]:
    """Return each pool's fair share in devices: the smallest over its limits."""
    shares = dict.fromkeys((request.uid for request in requests), float("inf"))
    for key, amount in limits.items():
        members = [request for request in requests if key in limits_binding(request, limits)]
        parts = [_part(request, floors[request.uid]) for request in members]
        for request, share in zip(members, fair_shares(parts, float(amount)), strict=True):
            shares[request.uid] = min(shares[request.uid], share)
    return shares


def _part(request: QuotaRequest, floor: int) -> Apportionment:
    demand = max(request.needed, floor) * request.per_replica
    return Apportionment(float(request.weight), float(floor * request.per_replica), float(demand))


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

    def worth(self, request: QuotaRequest, granted: int) -> float:
        """Return the worth of the next replica, per device and over the replicas granted so far."""
        chance = min(max(request.need - granted, 0.0), 1.0) if self.needed else 1.0
        bonus = INCUMBENCY if granted < self.before.get(request.uid, 0) else 1.0
        return request.weight * chance * bonus / ((granted + 0.5) * request.per_replica)

    def wants(self, request: QuotaRequest, granted: int) -> bool:
        """Return whether the pool takes another replica in this round."""
        below_share = granted * request.per_replica < self.upto(request) - 1e-9
        return granted < self.target(request) and below_share


def _grant_round(
    requests: Sequence[QuotaRequest],
    granted: dict[str, int],
    left: dict[LimitKey, int],
    round_: _Round,
) -> None:
    """Grant replicas by decreasing worth until no request takes or fits another; ties are broken by UID."""
    by_uid = {request.uid: request for request in requests}
    heap = [
        (-round_.worth(request, granted[uid]), uid)
        for uid, request in by_uid.items()
        if round_.wants(request, granted[uid])
    ]
    heapify(heap)
    while heap:
        _, uid = heappop(heap)
        request = by_uid[uid]
        keys = limits_binding(request, left)
        if any(left[key] < request.per_replica for key in keys):
            continue
        for key in keys:
            left[key] -= request.per_replica
        granted[uid] += 1
        if round_.wants(request, granted[uid]):
            heappush(heap, (-round_.worth(request, granted[uid]), uid))


MEMORY_SECONDS = 60.0
"""Time for which a device still counts as placed after its pod ended: binding the next pod takes a moment."""


def pressed(before: Pressure | None, *, placed: int, waiting: bool, now: float) -> Pressure | None:
    """Return the pressure with the devices `placed` now; None while the cluster places all that is deployed."""
    if not waiting and (before is None or now - before.seen > MEMORY_SECONDS):
        return None
    earlier = before.placed if before is not None else ()
    kept = tuple(
        (min(when, now), most)
        for when, most in earlier
        if most > placed and now - when <= MEMORY_SECONDS
    )
    seen = now if waiting or before is None else min(before.seen, now)
    return Pressure(seen, (*kept, (now, placed)))
