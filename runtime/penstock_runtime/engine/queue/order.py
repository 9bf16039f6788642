"""`order_of`: the order of waiting requests under one discipline: a heap of keys, or for FairShare a heap per tenant.

Operations take O(log n), amortized, and read heads only. A key is constant while its request waits;
a tenant's counter only grows, so a stale entry is corrected when it reaches the head.
"""

from collections.abc import Iterator
from typing import Protocol

from typing_extensions import override

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.queue.disciplines import Ordered, key_function, order_key
from penstock_runtime.engine.queue.fair_share import TenantCounters
from penstock_runtime.engine.queue.heap import LazyHeap
from penstock_runtime.engine.queue.monotonic_queue import MonotonicQueue

Key = tuple[float, int]
"""Key of the discipline (for FairShare the tenant's counter) and order of admission, so that no two are equal."""

_Entry = tuple[float, int, str]

STALE_ALLOWED = 64
"""Size below which a rebuild of a heap costs more than the memory it frees."""


class Order(Protocol):
    """The order of waiting requests; ids are unique."""

    __slots__ = ()

    def add(self, id: str, ordered: Ordered, sequence: int) -> None:
        """Add `id`; `sequence` grows with each admission and breaks ties."""

    def discard(self, id: str) -> None:
        """Remove `id`, if it waits."""

    def serve(self, id: str, ordered: Ordered) -> None:
        """Remove `id` because it is served, which charges its work to the tenant."""

    def head(self) -> tuple[Key, str] | None:
        """Return the key and id of the next request; None when empty."""

    def entries(self) -> Iterator[tuple[Key, str]]:
        """Iterate over keys and ids, unordered; for FairShare by the current counters."""


def order_of(discipline: Discipline, tenants: TenantCounters) -> Order:
    """Return an empty order under `discipline`; FairShare reads and charges `tenants`."""
    if discipline is Discipline.FAIR_SHARE:
        return FairOrder(tenants)
    return KeyedOrder(discipline)


class KeyedOrder(Order):
    """The order of a discipline with constant keys.

    A removed request stays in the queue until it reaches the head, or until stale entries outnumber waiting ones.
    """

    __slots__ = ("_key_of", "_queue", "_waiting")

    def __init__(self, discipline: Discipline) -> None:
        self._key_of = key_function(discipline)
        self._waiting: dict[str, _Entry] = {}
        self._queue: MonotonicQueue[str] = MonotonicQueue()

    @override
    def add(self, id: str, ordered: Ordered, sequence: int) -> None:
        entry = (self._key_of(ordered), sequence, id)
        self._waiting[id] = entry
        self._queue.push(entry)

    @override
    def discard(self, id: str) -> None:
        if self._waiting.pop(id, None) is None:
            return
        if len(self._queue) > 2 * len(self._waiting) + STALE_ALLOWED:
            self._queue.replace(self._waiting.values())

    @override
    def serve(self, id: str, ordered: Ordered) -> None:
        self.discard(id)

    @override
    def head(self) -> tuple[Key, str] | None:
        queue, waiting = self._queue, self._waiting
        while len(queue):
            entry = queue.head()
            if waiting.get(entry[2]) is entry:
                return entry[:2], entry[2]
            queue.pop()
        return None

    @override
    def entries(self) -> Iterator[tuple[Key, str]]:
        return (((key, sequence), name) for key, sequence, name in self._waiting.values())


class FairOrder(Order):
    """FairShare: the least served tenant is next, with its request of the best aged priority."""

    __slots__ = ("_by_tenant", "_tenant_of", "_tenants", "_tops")

    def __init__(self, tenants: TenantCounters) -> None:
        self._tenants = tenants
        self._by_tenant: dict[str, LazyHeap[Key, str]] = {}
        self._tenant_of: dict[str, str] = {}
        self._tops: LazyHeap[Key, str] = LazyHeap()

    @override
    def add(self, id: str, ordered: Ordered, sequence: int) -> None:
        """Add `id`; the counter of an idle tenant is raised to that of the others."""
        tenant = ordered.tenant
        self._tenants.enter(tenant)
        self._tenant_of[id] = tenant
        heap = self._by_tenant.get(tenant)
        if heap is None:
            heap = self._by_tenant[tenant] = LazyHeap()
        heap.put(id, (order_key(Discipline.PRIORITY, ordered), sequence))
        self._tops.put(tenant, self._top(tenant))

    @override
    def discard(self, id: str) -> None:
        tenant = self._tenant_of.pop(id, None)
        if tenant is None:
            return
        heap = self._by_tenant[tenant]
        heap.discard(id)
        if len(heap):
            self._tops.put(tenant, self._top(tenant))
        else:
            self._tops.discard(tenant)
            del self._by_tenant[tenant]
        self._tenants.leave(tenant)

    @override
    def serve(self, id: str, ordered: Ordered) -> None:
        self._tenants.charge(ordered.tenant, ordered.work)
        self.discard(id)

    @override
    def head(self) -> tuple[Key, str] | None:
        while (top := self._tops.head()) is not None:
            key, tenant = top
            now = self._top(tenant)
            if now == key:
                return key, self._first_of(tenant)[1]
            self._tops.put(tenant, now)  # charged since: it only moves back
        return None

    @override
    def entries(self) -> Iterator[tuple[Key, str]]:
        for tenant, heap in self._by_tenant.items():
            served = self._tenants.served(tenant)
            for (_, sequence), name in heap.entries():
                yield (served, sequence), name

    def _top(self, tenant: str) -> Key:
        return (self._tenants.served(tenant), self._first_of(tenant)[0][1])

    def _first_of(self, tenant: str) -> tuple[Key, str]:
        head = self._by_tenant[tenant].head()
        if head is None:
            raise IndexError(f"tenant '{tenant}' has nothing waiting")
        return head
