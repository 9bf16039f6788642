"""Who is held and who has ended: the one place where a request's end is written, so it is written once."""

from collections.abc import Iterable

from penstock_runtime.request import End, Request


class RequestLedger:
    """Requests between their admission and their end."""

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._ended: list[tuple[str, End]] = []

    def __contains__(self, id: object) -> bool:
        return id in self._held

    def held(self) -> tuple[str, ...]:
        """Return the ids that have not ended."""
        return tuple(self._held)

    def open(self, request: Request) -> None:
        """Hold `request`; raise ValueError when its id is held already, for one of the two would never end."""
        if request.id in self._held:
            raise ValueError(f"request id '{request.id}' is held already: ids must be unique")
        self._held.add(request.id)

    def end(self, id: str, end: End) -> None:
        """Write the end of a held request; raise KeyError when it is not held, or no longer."""
        self._held.remove(id)
        self._ended.append((id, end))

    def end_all(self, ends: Iterable[tuple[str, End]]) -> None:
        """Write the ends of those that are still held; the others have ended already."""
        held, ended = self._held, self._ended
        for one in ends:
            if one[0] in held:
                held.remove(one[0])
                ended.append(one)

    def collect(self) -> tuple[tuple[str, End], ...]:
        """Return the ends written since the last call."""
        ended, self._ended = self._ended, []
        return tuple(ended)
