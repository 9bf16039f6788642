"""`MarkerFinder`: finds a marker such as `<think>` in text that arrives in arbitrary pieces."""

from dataclasses import dataclass

from penstock_runtime.text.string_automaton import automaton_of


@dataclass(frozen=True, slots=True)
class Cut:
    """Text that certainly precedes the marker, and the text after it once the marker is complete."""

    before: str
    after: str | None = None


class MarkerFinder:
    """Finds the first occurrence of one marker."""

    __slots__ = ("_automaton", "_buffer", "_marker", "_state")

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._automaton = automaton_of((marker,))
        self._state = 0
        self._buffer = ""

    def add(self, piece: str) -> Cut:
        """Process the next piece; invalid after the marker was found."""
        if not self._state and self._marker[0] not in piece:
            return Cut(piece)
        text = self._buffer + piece
        before, marker, after = text.partition(self._marker)
        if marker:
            self._buffer = ""
            return Cut(before, after)
        self._state, _ = self._automaton.scan(self._state, piece)
        keep = self._automaton.depth(self._state)
        self._buffer = text[len(text) - keep :]
        return Cut(text[: len(text) - keep])

    def finish(self) -> str:
        """Return the buffered text, which did not become a marker."""
        rest, self._buffer = self._buffer, ""
        return rest
