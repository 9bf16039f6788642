"""`PriorityClasses`: the pending rows of each priority class, and the lowest-ranked waiting request."""

from typing import Protocol

from penstock_runtime.engine.queue.disciplines import (
    BATCH_CLASS,
    Aging,
    aged_priority,
    priority_class,
)


class QueuedRequest(Aging, Protocol):
    """The fields of a pending request that its rank depends on."""

    @property
    def id(self) -> str:
        """Unique among the pending requests."""

    @property
    def rows(self) -> int:
        """Number of rows, at least 1."""


class PriorityClasses:
    """Owns the pending requests by class; the newest of a class is its last to be served."""

    def __init__(self) -> None:
        self._rows = [0] * (BATCH_CLASS + 1)
        self._waiting: list[dict[str, QueuedRequest]] = [{} for _ in self._rows]

    def join(self, request: QueuedRequest) -> None:
        """Add a waiting request."""
        of = priority_class(request.priority)
        self._rows[of] += request.rows
        self._waiting[of][request.id] = request

    def begin(self, request: QueuedRequest) -> None:
        """Record that a request runs."""
        self._waiting[priority_class(request.priority)].pop(request.id, None)

    def leave(self, request: QueuedRequest) -> None:
        """Remove a request that has ended."""
        of = priority_class(request.priority)
        self._rows[of] -= request.rows
        self._waiting[of].pop(request.id, None)

    def rows_up_to(self, priority: int) -> int:
        """Return the pending rows of the class of `priority` and of better classes."""
        return sum(self._rows[: priority_class(priority) + 1])

    def waiting_below(self, priority: int) -> int:
        """Return how many requests of a lower class than that of `priority` wait."""
        return sum(map(len, self._waiting[priority_class(priority) + 1 :]))

    def lowest_ranked_after(self, newcomer: Aging) -> QueuedRequest | None:
        """Return the waiting request that is served last by priority, if it is served after `newcomer`."""
        newest = [next(reversed(waiting.values())) for waiting in self._waiting if waiting]
        last = max(newest, key=aged_priority, default=None)
        return last if last is not None and aged_priority(last) > aged_priority(newcomer) else None
