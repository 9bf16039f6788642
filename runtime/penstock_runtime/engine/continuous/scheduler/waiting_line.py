"""The waiting line of sequences: one order a level, one level unless time is sliced."""

from typing import Final

from penstock_api.limits import Discipline
from penstock_runtime.engine.continuous.scheduler.mlfq import PATIENCE_SECONDS
from penstock_runtime.engine.continuous.scheduler.slot import SequenceState
from penstock_runtime.engine.queue.disciplines import order_key
from penstock_runtime.engine.queue.fair_share import TenantCounters
from penstock_runtime.engine.queue.order import Order, order_of

TENANT_CREDIT: Final = 2048.0
"""Positions: a handful of chat turns. Of ten seconds of a backlogged device it is a few percent at most."""


class WaitQueue:
    """Who waits, and in which order; knows the discipline, and compares runners by it too."""

    def __init__(self, discipline: Discipline, *, sliced: bool) -> None:
        self.discipline = discipline
        self.sliced = sliced
        self._tenants = TenantCounters(TENANT_CREDIT)
        self._slots: dict[str, SequenceState] = {}
        self._orders: dict[int, Order] = {}
        self.preempted = 0
        """How many of those that wait ran before."""

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, SequenceState) and slot.name in self._slots

    def add(self, slot: SequenceState) -> None:
        """Let `slot` wait."""
        self._slots[slot.name] = slot
        self.preempted += slot.sequence.stats.preemptions > 0
        self._place(slot)

    def discard(self, slot: SequenceState) -> None:
        """Let `slot` wait no longer."""
        if self._slots.pop(slot.name, None) is not None:
            self._orders[self._level(slot)].discard(slot.name)
            self.preempted -= slot.sequence.stats.preemptions > 0

    def head(self) -> SequenceState | None:
        """Return who is next, or None when nobody waits."""
        heads = (order.head() for order in self._orders.values())
        slots = [self._slots[head[1]] for head in heads if head is not None]
        if len(slots) <= 1:
            return slots[0] if slots else None
        return min(
            slots, key=lambda slot: (slot.arrived + slot.level * PATIENCE_SECONDS, slot.level)
        )

    def change(self, discipline: Discipline, *, sliced: bool) -> None:
        """Order everything that waits anew, once; tenants' counters begin anew with another discipline."""
        if (discipline, sliced) == (self.discipline, self.sliced):
            return
        self.discipline, self.sliced = discipline, sliced
        self._tenants, self._orders = TenantCounters(TENANT_CREDIT), {}
        for slot in self._slots.values():
            self._place(slot)

    def charge(self, tenant: str, work: float) -> None:
        """Note under FairShare that a tenant was served."""
        self._tenants.charge(tenant, work)

    def served(self, tenant: str) -> float:
        """Return the tenant's virtual counter."""
        return self._tenants.served(tenant)

    def rank(self, slot: SequenceState) -> float:
        """Return the discipline's key of `slot`, waiting or running, as of now."""
        discipline = self.discipline
        if slot.ranked_by is discipline:
            return slot.rank
        if discipline is Discipline.FAIR_SHARE:
            return self._tenants.served(slot.tenant)
        if discipline is Discipline.SHORTEST_JOB_FIRST:
            return slot.work  # what is left of a running one, not what it was
        slot.rank, slot.ranked_by = order_key(discipline, slot), discipline
        return slot.rank

    def key(self, slot: SequenceState) -> tuple[int, float, int]:
        """Return what ranks `slot`, waiting or running, as of now; the smaller goes first."""
        return (self._level(slot), self.rank(slot), slot.number)

    def in_order(self) -> list[SequenceState]:
        """Return everybody who waits, the next first; O(n log n), for a drain's one look."""
        return sorted(self._slots.values(), key=self.key)

    def _level(self, slot: SequenceState) -> int:
        return slot.level if self.sliced else 0

    def _place(self, slot: SequenceState) -> None:
        level = self._level(slot)
        order = self._orders.get(level)
        if order is None:
            order = self._orders[level] = order_of(self.discipline, self._tenants)
        order.add(slot.name, slot, slot.number)
