"""`MonotonicQueue`: a priority queue in which entries that arrive in order cost O(1)."""

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Waiting = TypeVar("Waiting")


class MonotonicQueue(Generic[Waiting]):
    """Entries, smallest first: a list of those that arrived in order, and a heap of the others.

    An entry is a time or key, the order of admission, and the waiting item; the first two are unique together.

    Requests arrive in the order of their arrival, and of their key and deadline too where all have one
    priority and one patience; those cost O(1) to add and to take. The others cost O(log n).
    """

    __slots__ = ("_late", "_run")

    def __init__(self) -> None:
        self._run: deque[tuple[float, int, Waiting]] = deque()
        self._late: list[tuple[float, int, Waiting]] = []

    def __len__(self) -> int:
        return len(self._run) + len(self._late)

    def push(self, entry: tuple[float, int, Waiting]) -> None:
        """Add an entry."""
        run = self._run
        if not run or entry > run[-1]:
            run.append(entry)
        else:
            heappush(self._late, entry)

    def head(self) -> tuple[float, int, Waiting]:
        """Return the smallest entry; raise IndexError when empty."""
        run, late = self._run, self._late
        if late and (not run or late[0] < run[0]):
            return late[0]
        return run[0]

    def pop(self) -> None:
        """Remove the smallest entry; raise IndexError when empty."""
        run, late = self._run, self._late
        if late and (not run or late[0] < run[0]):
            heappop(late)
        else:
            run.popleft()

    def keep(self, wanted: Callable[[tuple[float, int, Waiting]], bool]) -> None:
        """Remove the entries that are not `wanted`; O(n)."""
        self._run = deque(filter(wanted, self._run))
        self._late = list(filter(wanted, self._late))
        heapify(self._late)

    def replace(self, entries: Iterable[tuple[float, int, Waiting]]) -> None:
        """Replace all entries; O(n log n)."""
        self._run = deque(sorted(entries))
        self._late = []
