"""`LazyHeap`: a heap whose items can change their key or be removed without a search."""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key")

_STALE_ALLOWED = 64
"""Size below which a rebuild costs more than the memory it frees."""


class LazyHeap(Generic[Key, Item]):
    """A min-heap of distinct hashable items; equal keys fall back on the items' own order.

    A removed or re-keyed item leaves its old entry behind, which is skipped when it surfaces. Once stale
    entries outnumber live ones the heap is rebuilt, so memory stays within twice the live entries (plus
    a constant) and every operation costs O(log n), amortized.
    """

    __slots__ = ("_entries", "_live")

    def __init__(self) -> None:
        self._entries: list[tuple[Key, Item]] = []
        self._live: dict[Item, tuple[Key, Item]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, item: object) -> bool:
        return item in self._live

    @property
    def size_in_memory(self) -> int:
        """Return the number of stored entries, stale ones included."""
        return len(self._entries)

    def put(self, item: Item, key: Key) -> None:
        """Add `item`, or change its key."""
        live = self._live.get(item)
        if live is not None and live[0] == key:
            return
        entry = (key, item)
        self._live[item] = entry
        heapq.heappush(self._entries, entry)
        if live is not None:
            self._compact()

    def discard(self, item: Item) -> None:
        """Remove `item`, if present."""
        if self._live.pop(item, None) is not None:
            self._compact()

    def head(self) -> tuple[Key, Item] | None:
        """Return the smallest key and its item, or None when empty."""
        entries = self._entries
        while entries:
            entry = entries[0]
            if self._live.get(entry[1]) is entry:
                return entry
            heapq.heappop(entries)
        return None

    def pop(self) -> Item:
        """Remove and return the item with the smallest key; raise IndexError when empty."""
        entry = self.head()
        if entry is None:
            raise IndexError("pop from an empty heap")
        heapq.heappop(self._entries)
        del self._live[entry[1]]
        return entry[1]

    def entries(self) -> Iterator[tuple[Key, Item]]:
        """Iterate over keys and items, in no order."""
        return iter(self._live.values())

    def _compact(self) -> None:
        if len(self._entries) > 2 * len(self._live) + _STALE_ALLOWED:
            self._rebuild()

    def _rebuild(self) -> None:
        self._entries = list(self._live.values())
        heapq.heapify(self._entries)
