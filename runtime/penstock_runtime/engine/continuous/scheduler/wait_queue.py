"""`WaitQueue`: the sequences that wait for a slot, ordered per level; without time slicing there is a single level."""

from typing import Final

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.scheduler.mlfq import LEVEL_SECONDS
from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.queue.disciplines import order_key
from penstock_runtime.engine.queue.fair_share import TenantCounters
from penstock_runtime.engine.queue.order import Order, order_of

TENANT_CREDIT: Final = 2048.0
"""Credit of a tenant that returns from idle, in positions: about five chat turns, at most a few percent of what a
backlogged device computes in ten seconds."""


class WaitQueue:
    """Orders waiting sequences by the discipline, and ranks running ones by the same keys."""

    def __init__(self, discipline: Discipline, *, time_sliced: bool) -> None:
        self.discipline = discipline
        self.time_sliced = time_sliced
        self._tenants = TenantCounters(TENANT_CREDIT)
        self._states: dict[str, SequenceState] = {}
        self._orders: dict[int, Order] = {}
        """By level."""
        self.preempted = 0
        """Waiting sequences that ran before."""

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, state: object) -> bool:
        return isinstance(state, SequenceState) and state.name in self._states

    def add(self, state: SequenceState) -> None:
        """Queue a sequence."""
        self._states[state.name] = state
        self.preempted += state.sequence.stats.preemptions > 0
        self._insert(state)

    def discard(self, state: SequenceState) -> None:
        """Remove a sequence, if it waits."""
        if self._states.pop(state.name, None) is not None:
            self._orders[self._level(state)].discard(state.name)
            self.preempted -= state.sequence.stats.preemptions > 0

    def head(self) -> SequenceState | None:
        """Return the next sequence, or None when the queue is empty."""
        heads = (order.head() for order in self._orders.values())
        states = [self._states[head[1]] for head in heads if head is not None]
        if len(states) <= 1:
            return states[0] if states else None
        return min(states, key=self.turn)

    @staticmethod
    def turn(state: SequenceState) -> tuple[float, int]:
        """Return the key of the head of a level; the smallest is the head of the queue."""
        return (state.arrived + state.level * LEVEL_SECONDS, state.level)

    def set_discipline(self, discipline: Discipline, *, time_sliced: bool) -> None:
        """Reorder the queue by a changed discipline; the tenants' counters restart from zero."""
        if (discipline, time_sliced) == (self.discipline, self.time_sliced):
            return
        self.discipline, self.time_sliced = discipline, time_sliced
        self._tenants, self._orders = TenantCounters(TENANT_CREDIT), {}
        for state in self._states.values():
            self._insert(state)

    def charge(self, tenant: str, work: float) -> None:
        """Charge served positions to a tenant; FairShare orders by the sums."""
        self._tenants.charge(tenant, work)

    def served(self, tenant: str) -> float:
        """Return the tenant's virtual counter."""
        return self._tenants.served(tenant)

    def rank(self, state: SequenceState) -> float:
        """Return the discipline's current key of a waiting or running sequence; the smaller is served first."""
        discipline = self.discipline
        if state.rank_discipline is discipline:
            return state.cached_rank
        if discipline is Discipline.FAIR_SHARE:
            return self._tenants.served(state.tenant)
        if discipline is Discipline.SHORTEST_JOB_FIRST:
            return state.work  # of a running sequence, the work that remains
        state.cached_rank, state.rank_discipline = order_key(discipline, state), discipline
        return state.cached_rank

    def key(self, state: SequenceState) -> tuple[int, float, int]:
        """Return level, rank and number of a waiting or running sequence; the smaller is served first."""
        return (self._level(state), self.rank(state), state.number)

    def in_order(self) -> list[SequenceState]:
        """Return all waiting sequences, the next first; O(n log n), called once per drain."""
        return sorted(self._states.values(), key=self.key)

    def _level(self, state: SequenceState) -> int:
        return state.level if self.time_sliced else 0

    def _insert(self, state: SequenceState) -> None:
        level = self._level(state)
        order = self._orders.get(level)
        if order is None:
            order = self._orders[level] = order_of(self.discipline, self._tenants)
        order.add(state.name, state, state.number)
