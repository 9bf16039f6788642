"""What pools claim of a resource, what they are granted, and what the next pass has to know of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

BudgetKey = tuple[str, str]
"""(policy, resource)."""
PlaceKey = tuple[str, str, str]
"""(policy, resource, placement): what the cluster places of a budget for pods that may go to the same nodes."""
LimitKey = BudgetKey | PlaceKey
BUDGET_LIMITED = "BudgetLimited"
"""The condition that tells what became of a claim."""


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """What one pool asks of one resource; counts are replicas unless they say devices."""

    uid: str
    """The pool's; of remains, another one."""
    resource: str
    per_replica: int
    """Devices, at least one."""
    weight: int
    floor: int
    """What comes before anybody's share; at most `requested`."""
    requested: int
    """At most the pool's maximum."""
    need: float
    """What demand alone asks for, in parts of a replica; at most `requested`."""
    deployed: int
    """What the Deployment asks for now."""
    staying: int = 0
    """Devices of bound pods that stay, surge included."""
    leaving: int = 0
    """Devices of bound pods that terminate."""
    unplaced: int = 0
    """Replicas that have waited for a device for longer than a scheduler needs."""
    policies: tuple[str, ...] = ()
    """Those whose budgets may bind it."""
    drain_seconds: int = 120
    """How long a pod of it may take to give its devices back."""
    placement: str = ""
    """Which nodes its pods may go to: equal for pools that choose alike, empty where they choose none."""
    remains_of: str = ""
    """The pool, where this is but what its pods of earlier templates still hold; empty: what a pool asks for."""
    gone: float | None = None
    """When its pool was deleted: until its pods have drained they still hold devices."""

    @property
    def pool(self) -> str:
        """Return the UID of the pool whose claim it is."""
        return self.remains_of or self.uid

    @property
    def needed(self) -> int:
        """Return the replicas that are worth something to the pool: floor and need, in whole ones."""
        return max(self.floor, min(self.requested, -int(-self.need // 1)))

    @property
    def used(self) -> int:
        """Return the devices of all bound pods."""
        return self.staying + self.leaving

    @property
    def committed(self) -> int:
        """Return the devices that are gone whatever is decided now: those in use, and those asked for."""
        return max(self.deployed * self.per_replica, self.staying) + self.leaving


@dataclass(frozen=True, slots=True)
class QuotaGrant:
    """What one pool may have."""

    entitled: int
    """Its share, in replicas."""
    replicas: int
    """What it may ask for now: less than its share while others still drain."""
    surge: bool = True
    """Whether one replica more is known to fit, as a rollout without a gap needs."""
    bound_by: str = ""
    """GpuBudget | Cluster; empty where nothing binds."""
    policy: str = ""
    """Whose budget binds."""
    limit: int = 0
    """Devices that the budget, or the cluster, has for all its pools."""

    @property
    def divided(self) -> bool:
        """Return whether it came of a division: until every pool was looked at, each but keeps what it has."""
        return bool(self.policy)


@dataclass(frozen=True, slots=True)
class Pressure:
    """The cluster cannot place what a budget grants: what it did place, of late."""

    seen: float
    """When a pod last waited for a device."""
    placed: tuple[tuple[float, int], ...]
    """(time, devices of bound pods), a falling staircase: the maximum since any time."""

    @property
    def devices(self) -> int:
        """Return what the cluster can place."""
        return self.placed[0][1]


@dataclass(frozen=True, slots=True)
class QuotaLedger:
    """Every pool's claims and grant; claims are as of each pool's last visit."""

    claims: Mapping[str, QuotaRequest] = field(default_factory=dict)
    grants: Mapping[str, QuotaGrant] = field(default_factory=dict)
    losing: Mapping[str, float] = field(default_factory=dict)
    """Since when a fresh division would take replicas from a pool."""
    pressures: Mapping[PlaceKey, Pressure] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()
    """Pools that were looked at, and claim nothing."""

    def knows(self, uid: str) -> bool:
        """Return whether the pool was ever looked at."""
        return uid in self.claims or uid in self.idle
