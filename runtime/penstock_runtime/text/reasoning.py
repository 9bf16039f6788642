"""What a model thinks aloud, told apart from what it answers: `<think>...</think>` before the answer."""

from dataclasses import dataclass
from typing import Final

from penstock_runtime.text.marker_finder import MarkerFinder

OPENS: Final = "<think>"
CLOSES: Final = "</think>"


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of text, told apart."""

    reasoning: str = ""
    content: str = ""


class ReasoningSplitter:
    """The state of one choice. A text that does not begin with a thought has none."""

    __slots__ = ("_beginning", "_finder", "_strip")

    def __init__(self, *, begun: bool) -> None:
        """`begun`: the prompt's own end opened the thought."""
        self._beginning: str | None = None if begun else ""
        self._finder: MarkerFinder | None = MarkerFinder(CLOSES) if begun else None
        self._strip = False

    def add(self, piece: str) -> Thought:
        """Take the next piece."""
        if self._beginning is not None:
            return self._begin(self._beginning + piece)
        if self._finder is None:
            return Thought(content=self._stripped(piece))
        cut = self._finder.add(piece)
        if cut.after is None:
            return Thought(cut.before)
        self._finder, self._strip = None, True
        return Thought(cut.before, self._stripped(cut.after))

    def finish(self) -> Thought:
        """Return what was held back."""
        if self._beginning is not None:
            held, self._beginning = self._beginning, None
            return Thought(content=held)
        return Thought(self._finder.finish()) if self._finder else Thought()

    def _begin(self, text: str) -> Thought:
        start = text.lstrip()
        if start.startswith(OPENS):
            self._beginning, self._finder = None, MarkerFinder(CLOSES)
            return self.add(start[len(OPENS) :])
        if OPENS.startswith(start):
            self._beginning = text
            return Thought()
        self._beginning = None
        return Thought(content=text)

    def _stripped(self, text: str) -> str:
        """Return `text` without the blank lines between a thought and its answer."""
        if self._strip:
            text = text.lstrip("\n")
            self._strip = not text
        return text


def opens_thought(prompt: str) -> bool:
    """Return whether a rendered prompt leaves its model in the middle of a thought."""
    return prompt.rstrip().endswith(OPENS)
