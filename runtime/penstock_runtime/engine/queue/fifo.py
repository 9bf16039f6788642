"""`FifoQueue`: a queue of requests of one shape and one priority that arrive in the order of service.

Most pools need no other queue, so it has no keys, heaps or groups.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from penstock_api.pod_contract import Discipline
from penstock_runtime.request import Request

ARRIVAL_SERVES: Final = frozenset(
    (Discipline.FIRST_IN_FIRST_OUT, Discipline.PRIORITY, Discipline.EARLIEST_DEADLINE_FIRST)
)
"""Disciplines that serve equal requests, or requests with ascending deadlines, in order of arrival."""
_STALE_ALLOWED: Final = 64
_LARGE_BYTES: Final = 2**16
"""Removed requests with tensors of this size leave the line at once: searching it costs less than their memory."""


class FifoQueue:
    """Requests of one shape and one priority whose arrivals and deadlines (all have one, or none) only grow.

    A cancelled request stays in the line until it reaches the head, or until stale entries outnumber waiting ones, unless
    it holds much memory. Every operation costs O(1), amortized.
    """

    __slots__ = ("_last", "_line", "_waiting", "rows")

    def __init__(self) -> None:
        self._line: deque[Request] = deque()
        self._waiting: dict[str, Request] = {}
        self._last: Request | None = None
        self.rows = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: object) -> bool:
        return id in self._waiting

    def __iter__(self) -> Iterator[Request]:
        return filter(self._waits, self._line)

    def add(self, request: Request) -> bool:
        """Add `request`; return False if its kind differs from the waiting ones, or it is out of order."""
        waiting = self._waiting
        if not waiting:
            self._line.clear()
        elif self._last is None or not _follows(request, self._last):
            return False
        self._last = waiting[request.id] = request
        self._line.append(request)
        self.rows += request.rows
        return True

    def head(self) -> Request:
        """Return the request that is served next; raise IndexError when empty."""
        line = self._line
        while not self._waits(line[0]):
            line.popleft()
        return line[0]

    def remove(self, id: str) -> Request | None:
        """Remove and return a request; None if it does not wait."""
        request = self._waiting.pop(id, None)
        if request is not None:
            self.rows -= request.rows
            stale = len(self._line) > 2 * len(self._waiting) + _STALE_ALLOWED
            if stale or _is_large(request):
                self._line = deque(self)
            if not self._waiting:
                self._last = None
        return request

    def take(self, max_rows: int) -> list[Request]:
        """Remove and return the first requests that fit in `max_rows`, at least one."""
        line, waiting = self._line, self._waiting
        taken, rows = [self._pop()], 0
        rows = taken[0].rows
        while waiting:
            request = line[0]
            if waiting.get(request.id) is not request:
                line.popleft()
                continue
            if rows + request.rows > max_rows:
                break
            rows += request.rows
            line.popleft()
            del waiting[request.id]
            taken.append(request)
        self.rows -= rows - taken[0].rows
        if not waiting:
            self._last = None
        return taken

    def take_all(self) -> list[Request]:
        """Remove and return all requests, in order."""
        requests = list(self)
        self._line.clear()
        self._waiting.clear()
        self.rows = 0
        return requests

    def expire(self, now: float) -> list[Request]:
        """Remove and return the requests whose deadline is at or before `now`, the earliest first."""
        expired: list[Request] = []
        while self._waiting and (deadline := self.head().deadline) is not None and deadline <= now:
            expired.append(self._pop())
        return expired

    def _pop(self) -> Request:
        request = self.head()
        self._line.popleft()
        del self._waiting[request.id]
        self.rows -= request.rows
        return request

    def _waits(self, request: Request) -> bool:
        return self._waiting.get(request.id) is request


def _is_large(request: Request) -> bool:
    return sum(tensor.nbytes for tensor in request.inputs.values()) >= _LARGE_BYTES


def _follows(request: Request, last: Request) -> bool:
    if request.arrived < last.arrived or request.priority != last.priority:
        return False
    if request.group is not last.group and request.group != last.group:
        return False
    if request.deadline is None or last.deadline is None:
        return request.deadline is last.deadline
    return request.deadline >= last.deadline
