"""`StopMatcher`: finds stop strings in streamed text, and withholds text that may be the start of one."""

from dataclasses import dataclass

from penstock_runtime.text.marker_finder import BegunMarker


@dataclass(frozen=True, slots=True)
class StopMatch:
    """Text that can be emitted now, and the stop string that ended the text, if any."""

    text: str
    stop: str | None = None


class StopMatcher:
    """Finds the first stop string of a text; among several at the same position, the first in the list."""

    __slots__ = ("_begun", "_buffer", "_include", "_stops")

    def __init__(self, stops: tuple[str, ...], *, include: bool = False) -> None:
        """Match `stops`, none of which is empty; `include` emits the stop string too."""
        self._stops = stops
        self._begun = [BegunMarker(stop) for stop in stops]
        self._include = include
        self._buffer = ""

    def add(self, piece: str) -> StopMatch:
        """Process the next piece; invalid after a stop string was found."""
        if not self._stops:
            return StopMatch(piece)
        text = self._buffer + piece
        places = [(text.find(stop), order) for order, stop in enumerate(self._stops)]
        first = min(((at, order) for at, order in places if at >= 0), default=None)
        if first is not None:
            stop = self._stops[first[1]]
            self._buffer = ""
            return StopMatch(text[: first[0] + (len(stop) if self._include else 0)], stop)
        keep = max(begun.add(piece) for begun in self._begun)
        self._buffer = text[len(text) - keep :]
        return StopMatch(text[: len(text) - keep])

    def finish(self) -> str:
        """Return the buffered text, which contains no stop string."""
        rest, self._buffer = self._buffer, ""
        return rest
