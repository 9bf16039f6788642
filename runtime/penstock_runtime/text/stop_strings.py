"""`StopMatcher`: finds stop strings in streamed text, and withholds text that may be the start of one."""

from dataclasses import dataclass

from penstock_runtime.text.string_automaton import automaton_of


@dataclass(frozen=True, slots=True)
class StopMatch:
    """Text that can be emitted now, and the stop string that ended the text, if any."""

    text: str
    stop: str | None = None


class StopMatcher:
    """Finds the first stop string of a text; among several at the same position, the first in the list."""

    __slots__ = ("_automaton", "_buffer", "_include", "_state")

    def __init__(self, stops: tuple[str, ...], *, include: bool = False) -> None:
        """Match `stops`, none of which is empty; `include` emits the stop string too."""
        self._automaton = automaton_of(stops) if stops else None
        self._state = 0
        self._include = include
        self._buffer = ""

    def add(self, piece: str) -> StopMatch:
        """Process the next piece; invalid after a stop string was found."""
        automaton = self._automaton
        if automaton is None:
            return StopMatch(piece)
        text = self._buffer + piece
        self._state, match = automaton.scan(self._state, piece)
        if match is not None:
            stop, end = automaton.strings[match.order], len(self._buffer) + match.start
            self._buffer = ""
            return StopMatch(text[: end + (len(stop) if self._include else 0)], stop)
        end = len(text) - automaton.depth(self._state)
        self._buffer = text[end:]
        return StopMatch(text[:end])

    def finish(self) -> str:
        """Return the buffered text, which contains no stop string."""
        rest, self._buffer = self._buffer, ""
        return rest
