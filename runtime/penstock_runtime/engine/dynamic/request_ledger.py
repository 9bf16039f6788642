"""`RequestLedger`: the pending requests of a batch engine and their ends; every request ends exactly once."""

from collections.abc import Iterable

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.queue.queue import WaitingRequests
from penstock_runtime.request import End, Expired, Request


class RequestLedger:
    """Owns the pending requests, waiting or running, and the ends that are not collected yet."""

    def __init__(self, discipline: Discipline) -> None:
        self.waiting = WaitingRequests(discipline)
        self._pending: set[str] = set()
        self._ended: list[tuple[str, End]] = []

    def pending(self) -> tuple[str, ...]:
        """Return the ids of pending requests."""
        return tuple(self._pending)

    def open(self, request: Request, now: float) -> bool:
        """Queue a request; if its deadline has passed, end it instead and return False.

        Raises:
            ValueError: a request with this id is pending, and one of the two would never end.
        """
        if request.id in self._pending:
            raise ValueError(f"request id '{request.id}' is already pending: ids must be unique")
        self._pending.add(request.id)
        if request.deadline is not None and request.deadline <= now:
            self.end(request.id, Expired(now - request.arrived))
            return False
        self.waiting.add(request)
        return True

    def end(self, id: str, end: End) -> None:
        """End a pending request, which leaves the queue; an id that is not pending is ignored."""
        if id in self._pending:
            self.waiting.remove(id)
            self._pending.remove(id)
            self._ended.append((id, end))

    def end_all(self, ends: Iterable[tuple[str, End]]) -> None:
        """End the requests of a batch that are still pending; the others were cancelled during the run."""
        pending, ended = self._pending, self._ended
        for entry in ends:
            if entry[0] in pending:
                pending.remove(entry[0])
                ended.append(entry)

    def expire(self, now: float) -> None:
        """End the waiting requests whose deadline has passed."""
        for request in self.waiting.expire(now):
            self.end(request.id, Expired(now - request.arrived))

    def collect(self) -> tuple[tuple[str, End], ...]:
        """Return the ends recorded since the last call."""
        ended, self._ended = self._ended, []
        return tuple(ended)
