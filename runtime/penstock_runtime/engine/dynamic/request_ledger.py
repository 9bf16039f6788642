"""`RequestLedger`: the pending requests of a batch engine and their ends; every request ends exactly once."""

from collections.abc import Iterable

from penstock_runtime.request import End, Request


class RequestLedger:
    """Owns the ids of pending requests, and the ends that are not collected yet."""

    def __init__(self) -> None:
        self._pending: set[str] = set()
        self._ended: list[tuple[str, End]] = []

    def __contains__(self, id: object) -> bool:
        return id in self._pending

    def held(self) -> tuple[str, ...]:
        """Return the ids of pending requests."""
        return tuple(self._pending)

    def open(self, request: Request) -> None:
        """Add a pending request; raise ValueError for a duplicate id, because one of the two would never end."""
        if request.id in self._pending:
            raise ValueError(f"request id '{request.id}' is already pending: ids must be unique")
        self._pending.add(request.id)

    def end(self, id: str, end: End) -> None:
        """Record the end of a pending request; raise KeyError when it is not pending."""
        self._pending.remove(id)
        self._ended.append((id, end))

    def end_all(self, ends: Iterable[tuple[str, End]]) -> None:
        """Record the ends of those that are still pending; the others have ended already."""
        pending, ended = self._pending, self._ended
        for entry in ends:
            if entry[0] in pending:
                pending.remove(entry[0])
                ended.append(entry)

    def collect(self) -> tuple[tuple[str, End], ...]:
        """Return the ends recorded since the last call."""
        ended, self._ended = self._ended, []
        return tuple(ended)
