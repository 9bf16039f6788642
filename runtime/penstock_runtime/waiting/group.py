"""The waiting requests that may share a batch: equal names, dtypes and shapes past the first axis."""

from collections.abc import Iterator

from penstock_runtime.request import Request
from penstock_runtime.waiting.heap import LazyHeap
from penstock_runtime.waiting.order import Key, Order


class Group:
    """Requests of one shape, seen from three sides: by order, by arrival, by deadline."""

    __slots__ = ("_arrivals", "_deadlines", "_order", "_requests", "_sequence_of", "rows")

    def __init__(self, order: Order) -> None:
        self._requests: dict[str, Request] = {}
        self._sequence_of: dict[str, int] = {}
        self._order = order
        self._arrivals: LazyHeap[float, str] = LazyHeap()
        self._deadlines: LazyHeap[float, str] = LazyHeap()
        self.rows = 0

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: Request, sequence: int) -> None:
        """Let `request` wait; `sequence` is its place in the order of admission."""
        self._requests[request.id] = request
        self._sequence_of[request.id] = sequence
        self._order.add(request.id, request, sequence)
        self._arrivals.put(request.id, request.arrived)
        if request.deadline is not None:
            self._deadlines.put(request.id, request.deadline)
        self.rows += request.rows

    def remove(self, id: str) -> Request:
        """Return the request called `id`, which no longer waits; raise KeyError if it did not."""
        request = self._requests.pop(id)
        del self._sequence_of[id]
        self._order.discard(id)
        self._arrivals.discard(id)
        self._deadlines.discard(id)
        self.rows -= request.rows
        return request

    def first(self) -> Request:
        """Return the request that is served next; raise IndexError when empty."""
        return self._requests[self.head()[1]]

    def head(self) -> tuple[Key, str]:
        """Return the next request's key and id; raise IndexError when empty."""
        head = self._order.head()
        if head is None:
            raise IndexError("the group is empty")
        return head

    def opened(self) -> float:
        """Return when the first of those still waiting arrived; raise IndexError when empty."""
        head = self._arrivals.head()
        if head is None:
            raise IndexError("the group is empty")
        return head[0]

    def earliest_deadline(self) -> float | None:
        """Return the earliest deadline, or None when nobody has one."""
        head = self._deadlines.head()
        return None if head is None else head[0]

    def first_to_expire(self) -> str:
        """Return the id with the earliest deadline; raise IndexError when nobody has one."""
        head = self._deadlines.head()
        if head is None:
            raise IndexError("nobody in the group has a deadline")
        return head[1]

    def entries(self) -> Iterator[tuple[Key, Request]]:
        """Iterate over keys and requests, in no order."""
        return ((key, self._requests[name]) for key, name in self._order.entries())

    def change_order(self, order: Order) -> None:
        """Let everything wait in `order`, which is empty; one rebuild."""
        self._order = order
        for name, request in self._requests.items():
            order.add(name, request, self._sequence_of[name])
