"""`MarkerFinder`: finds a marker such as `<think>` in text that arrives in arbitrary pieces."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """Text that certainly precedes the marker, and the text after it once the marker is complete."""

    before: str
    after: str | None = None


class MarkerFinder:
    """Finds the first occurrence of one marker."""

    __slots__ = ("_buffer", "_marker")

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._buffer = ""

    def add(self, piece: str) -> Cut:
        """Process the next piece; invalid after the marker was found."""
        text = self._buffer + piece
        before, marker, after = text.partition(self._marker)
        if marker:
            self._buffer = ""
            return Cut(before, after)
        keep = overlap(text, self._marker)
        self._buffer = text[len(text) - keep :]
        return Cut(text[: len(text) - keep])

    def finish(self) -> str:
        """Return the buffered text, which did not become a marker."""
        rest, self._buffer = self._buffer, ""
        return rest


def overlap(text: str, marker: str) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of `marker`."""
    longest = min(len(text), len(marker) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(marker[:n])), 0)
