"""The waiting requests that may share a batch: equal names, dtypes and shapes past the first axis."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from penstock_runtime.request import Request

Key = tuple[float, int]
"""A discipline's key, then the order of admission: no two are equal."""

_Entry = tuple[float, int, Request]
"""A time or key, the order of admission, the request; the first two tell entries apart."""

_STALE_ALLOWED = 64
"""Below this a rebuild costs more than the memory it frees."""


class Group:
    """Requests of one shape, seen from three sides: by order, by arrival, by deadline.

    Each side is a heap in which those who have left stay until they surface, or until they outnumber
    those who wait; so adding, removing and reading heads cost O(log n), amortised.
    """

    __slots__ = ("_by_arrival", "_by_deadline", "_by_key", "_waiting", "rows")

    def __init__(self) -> None:
        self._waiting: dict[str, _Entry] = {}
        self._by_key: list[_Entry] = []
        self._by_arrival: list[_Entry] = []
        self._by_deadline: list[_Entry] = []
        self.rows = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request, key: float, sequence: int) -> None:
        """Let `request` wait under `key`."""
        entry = (key, sequence, request)
        self._waiting[request.id] = entry
        heappush(self._by_key, entry)
        heappush(self._by_arrival, (request.arrived, sequence, request))
        if request.deadline is not None:
            heappush(self._by_deadline, (request.deadline, sequence, request))
        self.rows += request.rows

    def remove(self, id: str) -> Request:
        """Return the request called `id`, which no longer waits; raise KeyError if it did not."""
        request = self._waiting.pop(id)[2]
        self.rows -= request.rows
        self._compact()
        return request

    def take(self, max_rows: int) -> list[Request]:
        """Remove and return the first in order that fit in `max_rows`, at least one.

        Raises:
            IndexError: the group is empty.
        """
        taken, rows = list[Request](), 0
        waiting, heap = self._waiting, self._by_key
        while waiting:
            request = self._head(heap)[2]
            rows += request.rows
            if taken and rows > max_rows:
                break
            heappop(heap)
            del waiting[request.id]
            self.rows -= request.rows
            taken.append(request)
        self._compact()
        return taken

    def head(self) -> Key:
        """Return the next request's key; raise IndexError when empty."""
        return self._head(self._by_key)[:2]

    def opened(self) -> float:
        """Return when the first of those still waiting arrived; raise IndexError when empty."""
        return self._head(self._by_arrival)[0]

    def earliest_deadline(self) -> float | None:
        """Return the earliest deadline, or None when nobody has one."""
        try:
            return self._head(self._by_deadline)[0]
        except IndexError:
            return None

    def first_to_expire(self) -> str:
        """Return the id with the earliest deadline; raise IndexError when nobody has one."""
        return self._head(self._by_deadline)[2].id

    def entries(self) -> Iterator[tuple[Key, Request]]:
        """Iterate over keys and requests, in no order."""
        return (((key, sequence), request) for key, sequence, request in self._waiting.values())

    def change_keys(self, key_of: Callable[[Request], float]) -> None:
        """Give every request the discipline's key that `key_of` returns; one rebuild."""
        self._waiting = {
            request.id: (key_of(request), sequence, request)
            for _, sequence, request in self._waiting.values()
        }
        self._by_key = list(self._waiting.values())
        heapify(self._by_key)

    def _head(self, heap: list[_Entry]) -> _Entry:
        while True:
            entry = heap[0]
            held = self._waiting.get(entry[2].id)
            if held is not None and held[1] == entry[1]:
                return entry
            heappop(heap)

    def _compact(self) -> None:
        allowed = 2 * len(self._waiting) + _STALE_ALLOWED
        for heap in (self._by_key, self._by_arrival, self._by_deadline):
            if len(heap) > allowed:
                heap[:] = [entry for entry in heap if self._waits(entry)]
                heapify(heap)

    def _waits(self, entry: _Entry) -> bool:
        held = self._waiting.get(entry[2].id)
        return held is not None and held[1] == entry[1]
