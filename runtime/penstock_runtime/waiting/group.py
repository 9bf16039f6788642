"""The waiting requests that may share a batch: equal names, dtypes and shapes past the first axis."""

from collections.abc import Callable, Iterator

from penstock_runtime.request import Request
from penstock_runtime.waiting.line import Entry, Line

Key = tuple[float, int]
"""A discipline's key, then the order of admission: no two are equal."""

_STALE_ALLOWED = 64
"""Below this a rebuild costs more than the memory it frees."""


class Group:
    """Requests of one shape, seen from three sides: by order, by arrival, by deadline.

    Each side is a line in which those who have left stay until they surface, or until they outnumber
    those who wait; so adding, removing and reading heads cost O(1), amortised, for what comes in order,
    and O(log n) for the rest.
    """

    __slots__ = ("_by_arrival", "_by_deadline", "_by_key", "_waiting", "rows")

    def __init__(self) -> None:
        self._waiting: dict[str, Entry] = {}
        self._by_key: Line = Line()
        self._by_arrival: Line = Line()
        self._by_deadline: Line = Line()
        self.rows = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request, key: float, sequence: int) -> None:
        """Let `request` wait under `key`."""
        entry = (key, sequence, request)
        self._waiting[request.id] = entry
        self._by_key.push(entry)
        self._by_arrival.push((request.arrived, sequence, request))
        if request.deadline is not None:
            self._by_deadline.push((request.deadline, sequence, request))
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
        waiting, line = self._waiting, self._by_key
        while waiting:
            entry = line.head()
            request = entry[2]
            held = waiting.get(request.id)
            if held is None or held[1] != entry[1]:  # it has left
                line.pop()
                continue
            rows += request.rows
            if taken and rows > max_rows:
                break
            line.pop()
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
        self._by_key.replace(self._waiting.values())

    def _head(self, line: Line) -> Entry:
        while True:
            entry = line.head()
            if self._waits(entry):
                return entry
            line.pop()

    def _compact(self) -> None:
        allowed = 2 * len(self._waiting) + _STALE_ALLOWED
        for line in (self._by_key, self._by_arrival, self._by_deadline):
            if len(line) > allowed:
                line.keep(self._waits)

    def _waits(self, entry: Entry) -> bool:
        held = self._waiting.get(entry[2].id)
        return held is not None and held[1] == entry[1]
