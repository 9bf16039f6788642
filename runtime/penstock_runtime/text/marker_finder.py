"""`MarkerFinder`: finds a marker such as `<think>` in text that arrives in arbitrary pieces."""

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Cut:
    """Text that certainly precedes the marker, and the text after it once the marker is complete."""

    before: str
    after: str | None = None


class MarkerFinder:
    """Finds the first occurrence of one marker."""

    __slots__ = ("_begun", "_buffer", "_marker")

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._begun = BegunMarker(marker)
        self._buffer = ""

    def add(self, piece: str) -> Cut:
        """Process the next piece; invalid after the marker was found."""
        text = self._buffer + piece
        before, marker, after = text.partition(self._marker)
        if marker:
            self._buffer = ""
            return Cut(before, after)
        keep = self._begun.add(piece)
        self._buffer = text[len(text) - keep :]
        return Cut(text[: len(text) - keep])

    def finish(self) -> str:
        """Return the buffered text, which did not become a marker."""
        rest, self._buffer = self._buffer, ""
        return rest


class BegunMarker:
    """How much of a marker the end of a text is, in constant time per character (Knuth, Morris and Pratt 1977)."""

    __slots__ = ("_borders", "_length", "_marker")

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._borders = _borders(marker)
        self._length = 0

    def add(self, piece: str) -> int:
        """Return the length of the longest suffix of the text so far that is a prefix of the marker."""
        marker, borders, length = self._marker, self._borders, self._length
        for character in piece:
            while length and (length == len(marker) or character != marker[length]):
                length = borders[length - 1]
            if character == marker[length]:
                length += 1
        self._length = length
        return length


@lru_cache(maxsize=1024)
def _borders(marker: str) -> tuple[int, ...]:
    """Return for each prefix of `marker` the length of its longest proper suffix that is a prefix too."""
    borders, length = [0], 0
    for character in marker[1:]:
        while length and character != marker[length]:
            length = borders[length - 1]
        if character == marker[length]:
            length += 1
        borders.append(length)
    return tuple(borders)
