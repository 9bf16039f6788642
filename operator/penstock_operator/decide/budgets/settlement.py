"""One settlement of all quota requests: each pool's share, and the replicas that may start now.

A smaller share removes replicas immediately if the current counts no longer fit (a lowered budget, a missing floor),
else only once it has been the result for 60 s. A pool that loses replicas drains them. Draining pods count as used
until they are gone, and the pool that gains waits for them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock_operator.decide.budgets.apportion import (
    Limits,
    divide,
    fits,
    joined,
    limits_binding,
    pressed,
)
from penstock_operator.decide.quota_ledger import (
    BudgetKey,
    LimitKey,
    PlaceKey,
    Pressure,
    QuotaGrant,
    QuotaLedger,
    QuotaRequest,
    SurgeRoom,
    SurgeStage,
)

STABILIZATION_SECONDS = 60.0
Budgets = Mapping[BudgetKey, int]


def settle(
    ledger: QuotaLedger,
    news: Mapping[str, QuotaRequest | None],
    budgets: Budgets,
    unknown: Collection[BudgetKey],
    now: float,
) -> QuotaLedger:
    """Return the ledger with new requests (None: the pool's request ended) and the grants of all pools.

    `unknown` are the budgets of pools that were never observed: no count changes under those.
    """
    merged = {**ledger.requests, **news}
    requests = {uid: request for uid, request in merged.items() if request is not None}
    ended = frozenset(uid for uid, request in news.items() if request is None)
    known: dict[LimitKey, int] = dict(budgets.items())
    frozen = joined(requests.values(), known, unknown)
    still = {
        uid
        for uid, request in requests.items()
        if frozen and not frozen.isdisjoint(limits_binding(request, known))
    }
    grants = {uid: _frozen(requests[uid]) for uid in still}
    losing = {uid: since for uid, since in ledger.losing.items() if uid in still}
    pressures = {key: value for key, value in ledger.pressures.items() if key[:2] in frozen}
    moving = [request for uid, request in sorted(requests.items()) if uid not in still]
    for resource in sorted({request.resource for request in moving}):
        limits = {key: count for key, count in known.items() if key[1] == resource}
        same_resource = [request for request in moving if request.resource == resource]
        settled = _settled(_Group.of(same_resource, limits), ledger, now)
        grants |= settled.grants
        losing |= settled.losing
        pressures |= settled.pressures
    of_pools = {uid: grant for uid, grant in grants.items() if not requests[uid].remains_of}
    return QuotaLedger(requests, of_pools, losing, pressures, ended | (ledger.idle - news.keys()))


def _frozen(request: QuotaRequest) -> QuotaGrant:
    count = min(request.deployed, request.requested)
    return QuotaGrant(count, count, surge=SurgeRoom.NONE)


@dataclass(frozen=True, slots=True)
class _Group:
    """All requests for one resource that some limit binds."""

    requests: Sequence[QuotaRequest]
    limits: Limits
    keys: Mapping[str, Sequence[LimitKey]]
    """Limits of each pool."""
    members: Mapping[LimitKey, Sequence[str]]
    """Pools under each limit."""

    @classmethod
    def of(cls, requests: Sequence[QuotaRequest], limits: Limits) -> "_Group":
        keys = {request.uid: limits_binding(request, limits) for request in requests}
        members: dict[LimitKey, list[str]] = {key: [] for key in limits}
        for uid, own in keys.items():
            for key in own:
                members[key].append(uid)
        return cls([request for request in requests if keys[request.uid]], limits, keys, members)

    def total(self, key: LimitKey, counts: Mapping[str, int]) -> int:
        """Return the sum of `counts` over the pools under one limit."""
        return sum(counts[uid] for uid in self.members[key])

    def devices(self, replicas: Mapping[str, int]) -> dict[str, int]:
        """Return the devices of `replicas`, by pool."""
        return {
            request.uid: replicas[request.uid] * request.per_replica for request in self.requests
        }


def _settled(group: _Group, ledger: QuotaLedger, now: float) -> QuotaLedger:
    """Return the grants under the budgets of `group` and under what the cluster places of them."""
    pressures = _pressures(group, ledger, now)
    limits: dict[LimitKey, int] = dict(group.limits)
    for key, pressure in pressures.items():
        if pressure.devices < group.limits[key[:2]]:
            limits[key] = pressure.devices
    bound = _Group.of(group.requests, limits)
    shares, losing = _stabilized(bound, ledger, now)
    replicas = _startable(group, _with_pending(group, pressures, shares))
    surges = _surges(bound, shares, ledger)
    devices = group.devices(shares)
    slack = {key: limits[key] - bound.total(key, devices) for key in limits}
    grants = {}
    for request in group.requests:
        uid = request.uid
        tightest = min(bound.keys[uid], key=lambda key: (slack[key], limits[key], key))
        short = min(shares[uid], replicas[uid]) < request.requested
        cause = "GpuBudget" if tightest in group.limits else "Cluster"
        grants[uid] = QuotaGrant(
            entitled=shares[uid],
            replicas=replicas[uid],
            surge=surges[uid].room,
            ahead=surges[uid].ahead,
            bound_by=cause if short else "",
            policy=tightest[0],
            limit=limits[tightest],
        )
    return QuotaLedger({}, grants, losing, pressures)


def _place(key: LimitKey, request: QuotaRequest) -> PlaceKey:
    return key[0], key[1], request.placement


def _pressures(group: _Group, ledger: QuotaLedger, now: float) -> dict[PlaceKey, Pressure]:
    """Return the devices that the cluster places of each budget and node selection, where it is short of them."""
    alike: dict[PlaceKey, list[QuotaRequest]] = {}
    for request in group.requests:
        for key in group.keys[request.uid]:
            alike.setdefault(_place(key, request), []).append(request)
    pressures = {
        key: pressed(
            ledger.pressures.get(key),
            placed=sum(request.used for request in requests),
            waiting=any(request.unplaced for request in requests),
            now=now,
        )
        for key, requests in alike.items()
    }
    return {key: pressure for key, pressure in pressures.items() if pressure is not None}


def _stabilized(
    group: _Group, ledger: QuotaLedger, now: float
) -> tuple[dict[str, int], dict[str, float]]:
    """Return each pool's share, and the start of stabilization of the pools that keep a larger share for now."""
    requests, limits = group.requests, group.limits
    before = {request.uid: _before(request, ledger) for request in requests}
    floors = {request.uid: request.floor for request in requests}
    fresh = divide(requests, limits, before, floors)
    kept, losing = dict(floors), dict[str, float]()
    for request in requests:
        uid = request.uid
        usable = min(before[uid], request.requested)
        since = min(ledger.losing.get(uid, now), now)
        if fresh[uid] < usable and now - since < STABILIZATION_SECONDS:
            losing[uid] = since
            kept[uid] = max(request.floor, usable)
    if not losing or not fits(requests, limits, kept):
        return fresh, {}
    return divide(requests, limits, before, kept), losing


def _before(request: QuotaRequest, ledger: QuotaLedger) -> int:
    grant = ledger.grants.get(request.uid)
    return request.deployed if grant is None else grant.entitled


def _with_pending(
    group: _Group, pressures: Collection[PlaceKey], shares: Mapping[str, int]
) -> dict[str, int]:
    """Return the shares, with one pending replica for each node selection of which the cluster is short."""
    targets = dict(shares)
    for placement in sorted({key[2] for key in pressures}):
        if (uid := _pool_with_pending(group, placement, targets)) is not None:
            targets[uid] += 1
    return targets


def _pool_with_pending(group: _Group, placement: str, shares: Mapping[str, int]) -> str | None:
    """Return the pool whose extra replica stays pending; None while a share still waits for another pool's drain."""
    alike = [request for request in group.requests if request.placement == placement]
    devices = group.devices(shares)
    if any(devices[request.uid] > request.staying for request in alike):
        return None
    left = {key: count - group.total(key, devices) for key, count in group.limits.items()}
    worth = {
        request.uid: request.weight
        * min(max(request.need - shares[request.uid], 0.01), 1.0)
        / ((shares[request.uid] + 0.5) * request.per_replica)
        for request in alike
        if shares[request.uid] < request.requested
        and all(left[key] >= request.per_replica for key in group.keys[request.uid])
    }
    return max(sorted(worth), key=lambda uid: worth[uid], default=None)


def _startable(group: _Group, targets: Mapping[str, int]) -> dict[str, int]:
    """Return the replicas that each pool may have now; free devices go first to the pool furthest below its share."""
    committed = {request.uid: request.committed for request in group.requests}
    free = {key: count - group.total(key, committed) for key, count in group.limits.items()}
    replicas = {
        request.uid: min(targets[request.uid], request.deployed) for request in group.requests
    }
    growing = (request for request in group.requests if targets[request.uid] > request.deployed)
    for request in sorted(growing, key=_turn):
        keys = group.keys[request.uid]
        room = min(free[key] for key in keys) // request.per_replica
        more = max(min(targets[request.uid] - request.deployed, room), 0)
        replicas[request.uid] += more
        for key in keys:
            free[key] -= more * request.per_replica
    return replicas


def _turn(request: QuotaRequest) -> tuple[bool, float, str]:
    """Return the order in which pools grow: those below their floor, then by devices per weight."""
    per_weight = request.deployed * request.per_replica / request.weight
    return (request.deployed >= request.floor, per_weight, request.uid)


class _Surge(NamedTuple):
    """The room of one pool for an additional replica."""

    room: SurgeRoom
    ahead: tuple[str, ...] = ()


def _surges(group: _Group, shares: Mapping[str, int], ledger: QuotaLedger) -> dict[str, _Surge]:
    """Return the room of each pool for one more replica; free devices go to one rollout after another.

    A surge whose pod is bound already has its room. Devices beyond the share that a pool's earlier pods use, while it
    releases no replica, are no room for its own surge: its rollout alone ends these pods.
    """
    counts = {request.uid: max(shares[request.uid], request.deployed) for request in group.requests}
    devices, lasts = group.devices(counts), group.devices(shares)
    bound = {request.uid: max(devices[request.uid], request.staying) for request in group.requests}
    used = {request.uid: bound[request.uid] + request.leaving for request in group.requests}
    lasting = {key: group.total(key, lasts) for key in group.limits}
    taken = {key: group.total(key, used) for key in group.limits}
    takers: dict[LimitKey, list[str]] = {key: [] for key in group.limits}
    surges = {}
    for request in sorted(group.requests, key=lambda request: _surge_turn(request, ledger)):
        uid, each, keys = request.uid, request.per_replica, group.keys[request.uid]
        is_bound = request.surge is SurgeStage.BOUND
        more = max(devices[uid] + each - bound[uid], 0) if is_bound else each
        stays = max(request.staying - lasts[uid], 0) if request.pods <= shares[uid] else 0
        if not is_bound and any(group.limits[key] - lasting[key] - stays < each for key in keys):
            surges[uid] = _Surge(SurgeRoom.NONE)
            continue
        fits = is_bound or all(group.limits[key] - taken[key] >= more for key in keys)
        ahead = tuple(sorted({other for key in keys for other in takers[key]}))
        surges[uid] = _Surge(SurgeRoom.FREE) if fits else _Surge(SurgeRoom.TAKEN, ahead)
        if request.surge >= SurgeStage.BEGUN or (request.surge is SurgeStage.NEXT and fits):
            for key in keys:
                taken[key] += more
                takers[key].append(uid)
    return surges


def _surge_turn(request: QuotaRequest, ledger: QuotaLedger) -> tuple[int, bool, str]:
    """Return the sort key of a surge: surges in progress first, then those that were already granted a device."""
    before, grant = ledger.requests.get(request.uid), ledger.grants.get(request.uid)
    granted = (
        before is not None
        and before.surge is SurgeStage.NEXT
        and grant is not None
        and grant.surge is SurgeRoom.FREE
    )
    return -request.surge, not granted, request.uid
