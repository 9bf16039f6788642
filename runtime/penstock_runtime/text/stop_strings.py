"""Stop strings over a text that comes in pieces: nothing is told that may turn out to be one's beginning."""

from dataclasses import dataclass

from penstock_runtime.text.marker_finder import overlap


@dataclass(frozen=True, slots=True)
class StopMatch:
    """What may be told now, and the stop string that ended the text, if one did."""

    text: str
    stop: str | None = None


class StopMatcher:
    """Finds the first stop string of a text; of several that begin there, the one that was given first."""

    __slots__ = ("_held", "_include", "_stops")

    def __init__(self, stops: tuple[str, ...], *, include: bool = False) -> None:
        """Match `stops`, none of which is empty; `include` tells the stop string itself too."""
        self._stops = stops
        self._include = include
        self._held = ""

    def add(self, piece: str) -> StopMatch:
        """Take the next piece of the text; after a stop was found nothing more may be added."""
        if not self._stops:
            return StopMatch(piece)
        text = self._held + piece
        places = [(text.find(stop), order) for order, stop in enumerate(self._stops)]
        found = min(((at, order) for at, order in places if at >= 0), default=None)
        if found is not None:
            stop = self._stops[found[1]]
            self._held = ""
            return StopMatch(text[: found[0] + (len(stop) if self._include else 0)], stop)
        keep = max(overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return StopMatch(text[: len(text) - keep])

    def finish(self) -> str:
        """Return what was held back in vain: the text ended otherwise."""
        held, self._held = self._held, ""
        return held
