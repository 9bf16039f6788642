"""A marker in a text that comes in pieces, `<think>` or `<tool_call>`: found wherever the pieces are cut."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """What lies before the marker, as far as it is sure; and behind it, once it is found."""

    before: str
    after: str | None = None


class MarkerFinder:
    """Looks for one marker, once."""

    __slots__ = ("_held", "_marker")

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._held = ""

    def add(self, piece: str) -> Cut:
        """Take the next piece; after the marker was found nothing more may be added."""
        text = self._held + piece
        before, found, after = text.partition(self._marker)
        if found:
            self._held = ""
            return Cut(before, after)
        keep = overlap(text, self._marker)
        self._held = text[len(text) - keep :]
        return Cut(text[: len(text) - keep])

    def finish(self) -> str:
        """Return what was held back in vain."""
        held, self._held = self._held, ""
        return held


def overlap(text: str, marker: str) -> int:
    """Return the length of the longest end of `text` that is a proper beginning of `marker`."""
    most = min(len(text), len(marker) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(marker[:n])), 0)
