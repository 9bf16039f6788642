"""`TenantCounters`: virtual counters of the work served to each tenant, comparable between waiting tenants.

After "Fairness in Serving Large Language Models" (Sheng et al., OSDI 2024): the tenant with the least
counter is served next. A tenant that returns from idle is lifted to the least counter of those that wait,
so that absence saves up no more than a small credit; counters therefore only grow while requests wait.
"""

from penstock_runtime.engine.queue.heap import LazyHeap

_IDLE_KEPT = 64
"""Idle tenants that are kept before they are dropped together."""


class TenantCounters:
    """Owns the counters of all tenants, and the number of their waiting requests.

    `credit` is what a tenant under its share may be behind on its return, in units of work: enough for the
    few requests that it sends at once, so that they do not queue behind thousands of another tenant.
    """

    __slots__ = ("_credit", "_floor", "_served", "_waiting", "_waiting_by_served")

    def __init__(self, credit: float = 0.0) -> None:
        self._credit = credit
        self._served: dict[str, float] = {}
        self._waiting: dict[str, int] = {}
        self._waiting_by_served: LazyHeap[float, str] = LazyHeap()
        self._floor = 0.0

    def served(self, tenant: str) -> float:
        """Return the counter of `tenant`, in units of work; for an unknown tenant, its initial value."""
        return self._served.get(tenant, self._floor - self._credit)

    def enter(self, tenant: str) -> None:
        """Record another waiting request of `tenant`; the first one raises its counter."""
        waiting = self._waiting.get(tenant, 0)
        self._waiting[tenant] = waiting + 1
        if not waiting:
            self._served[tenant] = max(self.served(tenant), self._least() - self._credit)
            self._waiting_by_served.put(tenant, self._served[tenant])

    def leave(self, tenant: str) -> None:
        """Record that a request of `tenant` no longer waits."""
        left = self._waiting[tenant] - 1
        if left:
            self._waiting[tenant] = left
            return
        self._least()
        del self._waiting[tenant]
        self._waiting_by_served.discard(tenant)
        self._forget_idle()

    def charge(self, tenant: str, work: float) -> None:
        """Charge `work`, which is at least 0, to `tenant`."""
        self._served[tenant] = self.served(tenant) + work
        if tenant in self._waiting:
            self._waiting_by_served.put(tenant, self._served[tenant])

    def _least(self) -> float:
        """Return the smallest counter of the waiting tenants; the last one if none waits."""
        head = self._waiting_by_served.head()
        if head is not None:
            self._floor = max(self._floor, head[0])
        return self._floor

    def _forget_idle(self) -> None:
        """Remove idle tenants whose counter would be raised on their return."""
        if len(self._served) > 2 * len(self._waiting) + _IDLE_KEPT:
            self._served = {
                tenant: served
                for tenant, served in self._served.items()
                if tenant in self._waiting or served > self._floor - self._credit
            }
