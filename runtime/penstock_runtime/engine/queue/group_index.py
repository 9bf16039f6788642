"""`GroupIndex`: heaps over the groups of a queue, which find the first group by each criterion without a scan."""

from typing import Any

from penstock_runtime.engine.queue.group import Group
from penstock_runtime.engine.queue.heap import LazyHeap
from penstock_runtime.engine.queue.order import Key

Shape = tuple[tuple[str, str, tuple[int, ...]], ...]


class GroupIndex:
    """Indexes groups by key of their head, opening, deadline and rows.

    A single group needs no entries: the queue only adds it to `changed`, and the heaps stay empty.
    """

    __slots__ = ("_by_deadline", "_by_key", "_by_opening", "_by_rows", "_groups", "changed")

    def __init__(self, groups: dict[Shape, Group]) -> None:
        """`groups` is the queue's own dict of its groups, none of which is empty."""
        self._groups = groups
        self._by_key: LazyHeap[Key, Shape] = LazyHeap()
        self._by_opening: LazyHeap[float, Shape] = LazyHeap()
        self._by_deadline: LazyHeap[float, Shape] = LazyHeap()
        self._by_rows: LazyHeap[int, Shape] = LazyHeap()
        self.changed: set[Shape] = set()
        """Groups whose entries are updated by the next `refresh`."""

    def update(self, shape: Shape, group: Group) -> None:
        """Update the entries of one group."""
        self._by_key.put(shape, group.head()[0])
        self._by_opening.put(shape, group.opened())
        self._by_rows.put(shape, -group.rows)
        deadline = group.earliest_deadline()
        if deadline is None:
            self._by_deadline.discard(shape)
        else:
            self._by_deadline.put(shape, deadline)

    def discard(self, shape: Shape) -> None:
        """Remove the entries of a group, if it has any."""
        self.changed.discard(shape)
        if shape in self._by_key:
            for heap in self._heaps():
                heap.discard(shape)

    def refresh(self) -> None:
        """Update the entries of all changed groups."""
        for shape in self.changed:
            group = self._groups.get(shape)
            if group is not None:
                self.update(shape, group)
        self.changed.clear()

    def earliest_deadline(self) -> tuple[float, Shape] | None:
        """Return the earliest deadline and the shape of its group, or None if there is no deadline."""
        self.refresh()
        return self._by_deadline.head()

    def first_shapes(self) -> tuple[Shape, ...]:
        """Return the first group by key, then by opening, deadline and rows, each once."""
        self.refresh()
        self._refresh_first_key()
        tops = (heap.head() for heap in self._heaps())
        return tuple(dict.fromkeys(top[1] for top in tops if top is not None))

    def _refresh_first_key(self) -> None:
        """Update stale keys at the top: under FairShare the key of a head grows with its tenant's counter."""
        while (top := self._by_key.head()) is not None:
            key = self._groups[top[1]].head()[0]
            if key == top[0]:
                return
            self._by_key.put(top[1], key)

    def _heaps(self) -> tuple[LazyHeap[Any, Shape], ...]:
        return (self._by_key, self._by_opening, self._by_deadline, self._by_rows)
