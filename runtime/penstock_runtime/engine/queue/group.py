"""`Group`: the waiting requests that can share a batch: equal names, dtypes and shapes past the first axis."""

from collections.abc import Iterator

from penstock_runtime.engine.queue.monotonic_queue import MonotonicQueue
from penstock_runtime.engine.queue.order import STALE_ALLOWED, Key, Order
from penstock_runtime.request import Request

_Entry = tuple[float, int, str]
"""A time, the order of admission, and the id; the first two are unique. Entries may outlive their request in the queue,
so they hold no reference to it and its tensors."""


class Group:
    """Requests of one shape, by order of service, by arrival and by deadline.

    Each side is a line in which removed requests stay until they reach the head, or until they outnumber
    waiting ones. Adding, removing and reading heads cost O(1), amortized, for requests in order, and
    O(log n) for others.
    """

    __slots__ = ("_by_arrival", "_by_deadline", "_order", "_waiting", "rows")

    def __init__(self, order: Order) -> None:
        self._order = order
        self._waiting: dict[str, tuple[int, Request]] = {}
        """By id, with the order of admission."""
        self._by_arrival: MonotonicQueue[str] = MonotonicQueue()
        self._by_deadline: MonotonicQueue[str] = MonotonicQueue()
        self.rows = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request, sequence: int) -> None:
        """Add `request`; `sequence` is its place in the order of admission."""
        self._waiting[request.id] = (sequence, request)
        self._order.add(request.id, request, sequence)
        self._by_arrival.push((request.arrived, sequence, request.id))
        if request.deadline is not None:
            self._by_deadline.push((request.deadline, sequence, request.id))
        self.rows += request.rows

    def remove(self, id: str) -> Request:
        """Remove and return the request `id`; raise KeyError if it does not wait."""
        request = self._waiting.pop(id)[1]
        self._order.discard(id)
        self.rows -= request.rows
        self._compact()
        return request

    def take(self, max_rows: int) -> list[Request]:
        """Remove and return the first requests that fit in `max_rows`, at least one.

        Raises:
            IndexError: the group is empty.
        """
        taken, rows = list[Request](), 0
        waiting, order = self._waiting, self._order
        while waiting:
            name = self.head()[1]
            request = waiting[name][1]
            rows += request.rows
            if taken and rows > max_rows:
                break
            order.serve(name, request)
            del waiting[name]
            self.rows -= request.rows
            taken.append(request)
        self._compact()
        return taken

    def head(self) -> tuple[Key, str]:
        """Return the next request's key and id; raise IndexError when empty."""
        head = self._order.head()
        if head is None:
            raise IndexError("the group is empty")
        return head

    def opened(self) -> float:
        """Return the arrival of the first waiting request; raise IndexError when empty."""
        return self._head(self._by_arrival)[0]

    def earliest_deadline(self) -> float | None:
        """Return the earliest deadline, or None if no request has one."""
        try:
            return self._head(self._by_deadline)[0]
        except IndexError:
            return None

    def first_to_expire(self) -> str:
        """Return the id with the earliest deadline; raise IndexError without one."""
        return self._head(self._by_deadline)[2]

    def entries(self) -> Iterator[tuple[Key, Request]]:
        """Iterate over keys and requests, unordered."""
        return ((key, self._waiting[name][1]) for key, name in self._order.entries())

    def change_order(self, order: Order) -> None:
        """Move all waiting requests to `order`, which is empty."""
        self._order = order
        for sequence, request in self._waiting.values():
            order.add(request.id, request, sequence)

    def _head(self, line: MonotonicQueue[str]) -> _Entry:
        while True:
            entry = line.head()
            if self._waits(entry):
                return entry
            line.pop()

    def _compact(self) -> None:
        allowed = 2 * len(self._waiting) + STALE_ALLOWED
        for line in (self._by_arrival, self._by_deadline):
            if len(line) > allowed:
                line.keep(self._waits)

    def _waits(self, entry: _Entry) -> bool:
        waiting = self._waiting.get(entry[2])
        return waiting is not None and waiting[0] == entry[1]
