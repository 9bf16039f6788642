"""Who is held at the door, by class of priority: how many rows, and who of those that wait would be served last."""

from typing import Protocol

from penstock_runtime.engine.queue.disciplines import (
    LOWEST_CLASS,
    Aging,
    aged_priority,
    priority_class,
)


class QueuedRequest(Aging, Protocol):
    """What the door remembers of a request."""

    @property
    def id(self) -> str:
        """Unique among those that are held."""

    @property
    def rows(self) -> int:
        """How many it has, at least 1."""


class PriorityClasses:
    """Owns what is held by class; a class's newest is the last of it to be served."""

    def __init__(self) -> None:
        self._rows = [0] * (LOWEST_CLASS + 1)
        self._waiting: list[dict[str, QueuedRequest]] = [{} for _ in self._rows]

    def join(self, one: QueuedRequest) -> None:
        """Note a request that waits from now on."""
        of = priority_class(one.priority)
        self._rows[of] += one.rows
        self._waiting[of][one.id] = one

    def begin(self, one: QueuedRequest) -> None:
        """Note that a request waits no longer, but runs."""
        self._waiting[priority_class(one.priority)].pop(one.id, None)

    def leave(self, one: QueuedRequest) -> None:
        """Note that a request has ended."""
        of = priority_class(one.priority)
        self._rows[of] -= one.rows
        self._waiting[of].pop(one.id, None)

    def rows_up_to(self, priority: int) -> int:
        """Return the rows held of the class of `priority` and of better ones."""
        return sum(self._rows[: priority_class(priority) + 1])

    def waiting_below(self, priority: int) -> int:
        """Return how many requests of a class worse than that of `priority` wait."""
        return sum(map(len, self._waiting[priority_class(priority) + 1 :]))

    def lowest_ranked_after(self, newcomer: Aging) -> QueuedRequest | None:
        """Return who would be served last by priority, if that is after `newcomer`."""
        newest = [next(reversed(one.values())) for one in self._waiting if one]
        last = max(newest, key=aged_priority, default=None)
        return last if last is not None and aged_priority(last) > aged_priority(newcomer) else None
