"""Whose deadline passes while an engine that cannot look computes: the book of those that wait in another process.

The engine says which requests its batch took (`Settled.began`) and how each ended; who is left when the deadline
passes is told here, at once, and what the engine says of it later is dropped. Pure: seconds of the monotonic clock.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from penstock_runtime.engine.messages import Settled
from penstock_runtime.engine.queue.heap import LazyHeap
from penstock_runtime.request import Expired, Request


class Deadlines:
    """Owns who waits with a deadline, and whose end was told before the engine's word of it."""

    def __init__(self) -> None:
        self._waiting: LazyHeap[tuple[float, float], str] = LazyHeap()
        """By deadline; beside it when the request arrived."""
        self._told: set[str] = set()

    def note(self, requests: Iterable[Request]) -> None:
        """Remember those that have a deadline."""
        for request in requests:
            if request.deadline is not None:
                self._waiting.put(request.id, (request.deadline, request.arrived))

    def forget(self, ids: Iterable[str]) -> None:
        """Those called so wait no longer: begun, ended or cancelled."""
        for name in ids:
            self._waiting.discard(name)

    def next(self) -> float | None:
        """Return the earliest deadline of those that wait."""
        head = self._waiting.head()
        return None if head is None else head[0][0]

    def expire(self, now: float) -> tuple[tuple[str, Expired], ...]:
        """Return the ends of those whose deadline is at or before `now`, the earliest first."""
        ends: list[tuple[str, Expired]] = []
        while (head := self._waiting.head()) is not None and head[0][0] <= now:
            (_, arrived), name = head
            self._waiting.discard(name)
            ends.append((name, Expired(now - arrived)))
        self._told.update(name for name, _ in ends)
        return tuple(ends)

    def news(self, settled: Settled) -> Settled:
        """Take the engine's word in; return it without the ends that were told already."""
        if self._waiting:
            self.forget(settled.began)
            self.forget(name for name, _ in settled.ends)
        if not self._told:
            return settled
        told = self._told.intersection(name for name, _ in settled.ends)
        self._told -= told
        ends = tuple(one for one in settled.ends if one[0] not in told)
        return replace(settled, ends=ends)
