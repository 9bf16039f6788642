"""`ReasoningSplitter`: separates the reasoning of a model (`<think>...</think>`) from its answer."""

from dataclasses import dataclass
from typing import Final

from penstock_runtime.text.marker_finder import MarkerFinder

OPENS: Final = "<think>"
CLOSES: Final = "</think>"
_MAX_BLANK: Final = 4096
"""Characters of leading whitespace that are buffered; a text with more of them is an answer without reasoning."""


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of text, split into reasoning and answer."""

    reasoning: str = ""
    content: str = ""


class ReasoningSplitter:
    """State of one choice. Reasoning is recognized only at the beginning of the text."""

    __slots__ = ("_beginning", "_finder", "_strip")

    def __init__(self, *, begun: bool) -> None:
        """`begun`: the prompt already contains the opening marker."""
        self._beginning: str | None = None if begun else ""
        self._finder: MarkerFinder | None = MarkerFinder(CLOSES) if begun else None
        self._strip = False

    def add(self, piece: str) -> ReasoningDelta:
        """Process the next piece."""
        if self._beginning is not None:
            return self._begin(self._beginning + piece)
        if self._finder is None:
            return ReasoningDelta(content=self._stripped(piece))
        cut = self._finder.add(piece)
        if cut.after is None:
            return ReasoningDelta(cut.before)
        self._finder, self._strip = None, True
        return ReasoningDelta(cut.before, self._stripped(cut.after))

    def finish(self) -> ReasoningDelta:
        """Return the buffered text."""
        if self._beginning is not None:
            rest, self._beginning = self._beginning, None
            return ReasoningDelta(content=rest)
        return ReasoningDelta(self._finder.finish()) if self._finder else ReasoningDelta()

    def _begin(self, text: str) -> ReasoningDelta:
        self._beginning = None
        start = text.lstrip()
        if len(text) - len(start) > _MAX_BLANK:
            return ReasoningDelta(content=text)
        if start.startswith(OPENS):
            self._finder = MarkerFinder(CLOSES)
            return self.add(start[len(OPENS) :])
        if OPENS.startswith(start):
            self._beginning = text
            return ReasoningDelta()
        return ReasoningDelta(content=text)

    def _stripped(self, text: str) -> str:
        """Return `text` without the blank lines between reasoning and answer."""
        if self._strip:
            text = text.lstrip("\n")
            self._strip = not text
        return text


def opens_thought(prompt: str) -> bool:
    """Return whether a rendered prompt ends with the opening marker of reasoning."""
    return prompt.rstrip().endswith(OPENS)
