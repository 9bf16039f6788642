"""Quota requests and grants of all pools, and the ledger that carries them from pass to pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

BudgetKey = tuple[str, str]
"""(policy, resource)."""
PlaceKey = tuple[str, str, str]
"""(policy, resource, placement): the part of a budget that the cluster places for pods with the same node selection."""
LimitKey = BudgetKey | PlaceKey
BUDGET_LIMITED = "BudgetLimited"
"""Condition type that reports the outcome of a quota request."""


class SurgeStage(IntEnum):
    """Stage of a rollout's surge; higher stages get free devices first."""

    NONE = 0
    """No rollout, or one that replaces pods."""
    NEXT = 1
    BEGUN = 2
    BOUND = 3
    """The additional pod is bound."""


class SurgeRoom(StrEnum):
    """Room under the limits for the additional replica of a surge."""

    FREE = "Free"
    TAKEN = "Taken"
    """There is room once other rollouts and terminating pods have released their devices."""
    NONE = "None"


class QuotaRequest(NamedTuple):
    """The devices of one resource that one pool requests; counts are in replicas unless they name devices."""

    uid: str
    """UID of the pool; a derived key where `remains_of` is set."""
    resource: str
    per_replica: int
    """Devices per replica, at least 1."""
    weight: int
    floor: int
    """Replicas granted before any share is computed; at most `requested`."""
    requested: int
    """Replicas; at most the pool's maximum."""
    need: float
    """Replicas that demand alone requires, as a fraction; at most `requested`."""
    deployed: int
    """`spec.replicas` of the Deployment now."""
    staying: int = 0
    """Devices of bound pods that are not terminating, surge included."""
    leaving: int = 0
    """Devices of bound pods that terminate."""
    pods: int = 0
    """Bound pods that are not terminating, surge included."""
    unplaced: int = 0
    """Pods that have waited for a device for longer than a scheduler needs."""
    surge: SurgeStage = SurgeStage.NONE
    policies: tuple[str, ...] = ()
    """Policies whose budgets may bind the request."""
    placement: str = ""
    """Digest of the node selection: equal for pools that select nodes alike, empty without a selection."""
    remains_of: str = ""
    """UID of the pool whose pods of earlier templates, or from before its deletion, use these devices; empty for a request for new replicas."""

    @property
    def pool(self) -> str:
        """Return the UID of the pool."""
        return self.remains_of or self.uid

    @property
    def needed(self) -> int:
        """Return the replicas that are useful to the pool: floor and need, rounded up."""
        return max(self.floor, min(self.requested, -int(-self.need // 1)))

    @property
    def used(self) -> int:
        """Return the devices of all bound pods."""
        return self.staying + self.leaving

    @property
    def committed(self) -> int:
        """Return the devices that no decision of this pass can free: those in use and those already deployed."""
        return max(self.deployed * self.per_replica, self.staying) + self.leaving


class QuotaGrant(NamedTuple):
    """The replicas that one pool may have."""

    entitled: int
    """Share of the pool, in replicas."""
    replicas: int
    """Replicas that the Deployment may have now: below the share while other pools drain."""
    surge: SurgeRoom = SurgeRoom.FREE
    ahead: tuple[str, ...] = ()
    """UIDs of the pools whose surges use the devices, where `surge` is Taken."""
    bound_by: str = ""
    """GpuBudget | Cluster; empty where nothing binds."""
    policy: str = ""
    """Policy whose budget binds."""
    limit: int = 0
    """Devices that the budget, or the cluster, has for all its pools."""

    @property
    def divided(self) -> bool:
        """Return whether the budget was divided: until every pool was observed, each keeps its count."""
        return bool(self.policy)


@dataclass(frozen=True, slots=True)
class Pressure:
    """A shortage of nodes: the cluster places fewer devices than a budget grants."""

    seen: float
    """Time at which a pod last waited for a device."""
    placed: tuple[tuple[float, int], ...]
    """(time, devices of bound pods) with falling counts, from which the maximum since any time follows."""

    @property
    def devices(self) -> int:
        """Return the devices that the cluster can place."""
        return self.placed[0][1]


@dataclass(frozen=True, slots=True)
class QuotaLedger:
    """The quota requests and grants of all pools; each request dates from its pool's last pass.

    A time after now, which a clock that was set back leaves, counts as now.
    """

    requests: Mapping[str, QuotaRequest] = field(default_factory=dict)
    grants: Mapping[str, QuotaGrant] = field(default_factory=dict)
    losing: Mapping[str, float] = field(default_factory=dict)
    """Time since which a new division would take replicas from a pool, by UID."""
    pressures: Mapping[PlaceKey, Pressure] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()
    """Observed pools that request nothing."""

    def knows(self, uid: str) -> bool:
        """Return whether the pool was ever observed."""
        return uid in self.requests or uid in self.idle
