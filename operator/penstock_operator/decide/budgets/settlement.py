"""One settling of all claims: shares, with patience; then what may start now, since a device is free only when its pod is gone.

A lower share takes replicas away at once where what is held does not fit any more (a budget was lowered, a floor is
missing), else only after it was the outcome for 60 s. A pool that loses replicas drains them; until they are gone
they count as used, and the pool that gains waits.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock_operator.decide.budgets.apportion import (
    Limits,
    budgets_of,
    divide,
    fits,
    joined,
    pressed,
)
from penstock_operator.decide.ledger import (
    BudgetKey,
    LimitKey,
    PlaceKey,
    Pressure,
    QuotaGrant,
    QuotaLedger,
    QuotaRequest,
)

PATIENCE_SECONDS = 60.0
Budgets = Mapping[BudgetKey, int]


def settle(
    ledger: QuotaLedger,
    news: Mapping[str, QuotaRequest | None],
    budgets: Budgets,
    unknown: Collection[BudgetKey],
    now: float,
) -> QuotaLedger:
    """Return the ledger with fresh claims (None: the pool claims nothing any more) and everyone's grant.

    `unknown` are the budgets of pools that were never looked at: until they are, no count moves in those.
    """
    held = {**ledger.claims, **news}
    claims = {uid: one for uid, one in held.items() if one is not None}
    idle = frozenset(uid for uid, one in news.items() if one is None) | (ledger.idle - news.keys())
    known: dict[LimitKey, int] = dict(budgets.items())
    frozen = joined(claims.values(), known, unknown)
    still = {
        uid
        for uid, one in claims.items()
        if frozen and not frozen.isdisjoint(budgets_of(one, known))
    }
    grants = {uid: _frozen(claims[uid]) for uid in still}
    losing = {uid: since for uid, since in ledger.losing.items() if uid in still}
    pressures = {key: one for key, one in ledger.pressures.items() if key[:2] in frozen}
    moving = [one for uid, one in sorted(claims.items()) if uid not in still]
    for resource in sorted({one.resource for one in moving}):
        limits = {key: count for key, count in known.items() if key[1] == resource}
        mine = [one for one in moving if one.resource == resource]
        settled = _settled(_Group.of(mine, limits), ledger, now)
        grants |= settled.grants
        losing |= settled.losing
        pressures |= settled.pressures
    asking = {uid: one for uid, one in grants.items() if not claims[uid].remains_of}
    return QuotaLedger(claims, asking, losing, pressures, idle)


def _frozen(one: QuotaRequest) -> QuotaGrant:
    count = min(one.deployed, one.requested)
    return QuotaGrant(count, count, surge=False)


@dataclass(frozen=True, slots=True)
class _Group:
    """All claims to one resource that some limit binds."""

    claims: Sequence[QuotaRequest]
    limits: Limits
    keys: Mapping[str, Sequence[LimitKey]]
    """The limits of each pool."""
    members: Mapping[LimitKey, Sequence[str]]
    """The pools under each limit."""

    @classmethod
    def of(cls, claims: Sequence[QuotaRequest], limits: Limits) -> "_Group":
        keys = {one.uid: budgets_of(one, limits) for one in claims}
        members: dict[LimitKey, list[str]] = {key: [] for key in limits}
        for uid, mine in keys.items():
            for key in mine:
                members[key].append(uid)
        return cls([one for one in claims if keys[one.uid]], limits, keys, members)

    def total(self, key: LimitKey, counts: Mapping[str, int]) -> int:
        """Return the sum of `counts` over the pools under one limit."""
        return sum(counts[uid] for uid in self.members[key])


def _settled(group: _Group, ledger: QuotaLedger, now: float) -> QuotaLedger:
    """Return grants under the budgets of `group`, and under what the cluster places of them."""
    pressures = _pressures(group, ledger, now)
    limits: dict[LimitKey, int] = dict(group.limits)
    for key, pressure in pressures.items():
        if pressure.devices < group.limits[key[:2]]:
            limits[key] = pressure.devices
    bound = _Group.of(group.claims, limits)
    shares, losing = _patient(bound, ledger, now)
    replicas = _startable(group, _left_to_wait(group, pressures, shares))
    reserved = {one.uid: _reserved(one, shares) for one in group.claims}
    sums = {key: group.total(key, reserved) for key in group.limits}
    devices = {one.uid: shares[one.uid] * one.per_replica for one in group.claims}
    slack = {key: limits[key] - bound.total(key, devices) for key in limits}
    grants = {}
    for one in group.claims:
        own = max(shares[one.uid], one.deployed) * one.per_replica
        surge = all(
            _place(key, one) not in pressures
            and group.limits[key] - sums[key] + reserved[one.uid] - own >= one.per_replica
            for key in group.keys[one.uid]
        )
        tightest = min(bound.keys[one.uid], key=lambda key: (slack[key], limits[key], key))
        short = shares[one.uid] < one.requested
        cause = "GpuBudget" if tightest in group.limits else "Cluster"
        grants[one.uid] = QuotaGrant(
            entitled=shares[one.uid],
            replicas=replicas[one.uid],
            surge=surge,
            bound_by=cause if short or replicas[one.uid] < one.requested else "",
            policy=tightest[0],
            limit=limits[tightest],
        )
    return QuotaLedger({}, grants, losing, pressures)


def _place(key: LimitKey, one: QuotaRequest) -> PlaceKey:
    return key[0], key[1], one.placement


def _pressures(group: _Group, ledger: QuotaLedger, now: float) -> dict[PlaceKey, Pressure]:
    """Return what the cluster places of each budget where that is less than asked for, by where pods may go."""
    alike: dict[PlaceKey, list[QuotaRequest]] = {}
    for one in group.claims:
        for key in group.keys[one.uid]:
            alike.setdefault(_place(key, one), []).append(one)
    found = {
        key: pressed(
            ledger.pressures.get(key),
            placed=sum(one.used for one in claims),
            waiting=any(one.unplaced for one in claims),
            now=now,
        )
        for key, claims in alike.items()
    }
    return {key: one for key, one in found.items() if one is not None}


def _patient(
    group: _Group, ledger: QuotaLedger, now: float
) -> tuple[dict[str, int], dict[str, float]]:
    """Return each pool's share, and since when the pools whose share is only kept for now should lose some."""
    claims, limits = group.claims, group.limits
    before = {one.uid: _before(one, ledger) for one in claims}
    floors = {one.uid: one.floor for one in claims}
    fresh = divide(claims, limits, before, floors)
    losing: dict[str, float] = {}
    for one in claims:
        since = ledger.losing.get(one.uid, now)
        if fresh[one.uid] < min(before[one.uid], one.requested) and now - since < PATIENCE_SECONDS:
            losing[one.uid] = since
    if not losing:
        return fresh, {}
    kept = {
        one.uid: max(one.floor, min(before[one.uid], one.requested) if one.uid in losing else 0)
        for one in claims
    }
    if not fits(claims, limits, kept):
        return fresh, {}
    return divide(claims, limits, before, kept), losing


def _before(one: QuotaRequest, ledger: QuotaLedger) -> int:
    grant = ledger.grants.get(one.uid)
    return one.deployed if grant is None else grant.entitled


def _left_to_wait(
    group: _Group, pressures: Collection[PlaceKey], shares: Mapping[str, int]
) -> dict[str, int]:
    """Return the shares with one replica too many wherever the cluster is short."""
    targets = dict(shares)
    for placement in sorted({key[2] for key in pressures}):
        if (uid := _waiter(group, placement, targets)) is not None:
            targets[uid] += 1
    return targets


def _waiter(group: _Group, placement: str, shares: Mapping[str, int]) -> str | None:
    """Return the pool that one replica too many is to wait at; none while another's drain is waited for."""
    alike = [one for one in group.claims if one.placement == placement]
    if any(shares[one.uid] * one.per_replica > one.staying for one in alike):
        return None
    devices = {one.uid: shares[one.uid] * one.per_replica for one in group.claims}
    left = {key: count - group.total(key, devices) for key, count in group.limits.items()}
    able = [
        one
        for one in alike
        if shares[one.uid] < one.requested
        and all(left[key] >= one.per_replica for key in group.keys[one.uid])
    ]
    worth = {
        one.uid: one.weight
        * min(max(one.need - shares[one.uid], 0.01), 1.0)
        / ((shares[one.uid] + 0.5) * one.per_replica)
        for one in able
    }
    return max(sorted(worth), key=lambda uid: worth[uid], default=None)


def _startable(group: _Group, targets: Mapping[str, int]) -> dict[str, int]:
    """Return what each pool may ask for now; free devices go to who has least of his share."""
    committed = {one.uid: one.committed for one in group.claims}
    free = {key: count - group.total(key, committed) for key, count in group.limits.items()}
    replicas = {one.uid: min(targets[one.uid], one.deployed) for one in group.claims}
    by_turn = sorted(
        (one for one in group.claims if targets[one.uid] > one.deployed),
        key=lambda one: (
            one.deployed >= one.floor,
            one.deployed * one.per_replica / one.weight,
            one.uid,
        ),
    )
    for one in by_turn:
        keys = group.keys[one.uid]
        room = min(free[key] for key in keys) // one.per_replica
        more = max(min(targets[one.uid] - one.deployed, room), 0)
        replicas[one.uid] += more
        for key in keys:
            free[key] -= more * one.per_replica
    return replicas


def _reserved(one: QuotaRequest, shares: Mapping[str, int]) -> int:
    return max(max(shares[one.uid], one.deployed) * one.per_replica, one.staying) + one.leaving
