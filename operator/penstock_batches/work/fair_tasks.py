"""`FairTasks`: works on a few batches at a time, at most two of a tenant, so that the long work of up to three tenants delays no other."""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Final

from penstock_batches.records import BatchJob

MAX_TASKS: Final = 4
"""Each has a group of lines or an answer in memory."""
MAX_TENANT_TASKS: Final = 2
"""The last place is for a tenant without a task."""


class FairTasks:
    """Runs `run` for each batch; `run` handles its errors."""

    def __init__(self, run: Callable[[BatchJob], Coroutine[None, None, None]]) -> None:
        self._run = run
        self._waiting: dict[str, deque[BatchJob]] = {}
        """By tenant."""
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """Tenant and task by batch."""
        self._begun: dict[str, float] = {}
        """Monotonic time at which the last task of a tenant began."""

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Tasks in progress."""
        return [task for _, task in self._running.values()]

    def offer(self, batches: Iterable[BatchJob]) -> None:
        """Replace the batches that wait, each tenant's in this order, and begin as many as there may be; the others follow when these end."""
        waiting: dict[str, deque[BatchJob]] = defaultdict(deque)
        for batch in batches:
            if batch.id not in self._running:
                waiting[batch.tenant].append(batch)
        self._waiting = waiting
        current = waiting.keys() | {tenant for tenant, _ in self._running.values()}
        self._begun = {tenant: begun for tenant, begun in self._begun.items() if tenant in current}
        self._begin()

    def close(self) -> None:
        """Begin no more tasks; those in progress go on."""
        self._waiting = {}

    def _begin(self) -> None:
        """Begin tasks: next is the tenant with the fewest in progress, of several the one that began its last longest ago."""
        while len(self._running) < MAX_TASKS:
            busy = Counter(tenant for tenant, _ in self._running.values())
            places = MAX_TASKS - len(self._running)
            free = [
                tenant
                for tenant, batches in self._waiting.items()
                if batches and busy[tenant] < (MAX_TENANT_TASKS if places > 1 else 1)
            ]
            if not free:
                return
            tenant = min(free, key=lambda each: (busy[each], self._begun.get(each, 0.0)))
            batch = self._waiting[tenant].popleft()
            self._begun[tenant] = time.monotonic()
            task = asyncio.create_task(self._run(batch))
            self._running[batch.id] = (tenant, task)
            task.add_done_callback(partial(self._end, batch.id))

    def _end(self, batch_id: str, _task: asyncio.Task[None]) -> None:
        del self._running[batch_id]
        self._begin()
