"""Calls of tools in a model's text, told as they come: first the name, then the arguments as they are written.

Three spellings: objects between markers (`<tool_call>{...}</tool_call>`: Hermes, Qwen), an array behind a
marker (`[TOOL_CALLS][...]`: Mistral), and a bare array, which a grammar enforces where a tool is required.
An object is `{"name": ..., "arguments": {...}}`, or `parameters` for `arguments`. What is spelt otherwise is
content: nothing that a model said is ever dropped.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from penstock_runtime.text.json_scan import JsonScanner
from penstock_runtime.text.markers import MarkerFinder

_HEAD: Final = re.compile(
    r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*', re.DOTALL
)
_LONGEST_HEAD: Final = 4096


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a model writes calls."""

    opens: str
    """Before the first call; empty: the text begins with calls."""
    closes: str
    """After a call, or after the array."""
    array: bool = False


HERMES: Final = Spelling("<tool_call>", "</tool_call>")
MISTRAL: Final = Spelling("[TOOL_CALLS]", "]", array=True)
BARE: Final = Spelling("", "]", array=True)


def spelling_of(template: str) -> Spelling | None:
    """Return how the model of a chat template writes calls; None: it knows of no tools that we know of."""
    for one in (HERMES, MISTRAL):
        if one.opens in template:
            return one
    return None


@dataclass(frozen=True, slots=True)
class Content:
    """Text that is no call."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The next call, and its function."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of the arguments of the call that began last, as JSON text."""

    text: str


Said = Content | CallBegun | Arguments


class _At(Enum):
    CONTENT = auto()
    ARRAY = auto()
    HEAD = auto()
    ARGUMENTS = auto()
    TAIL = auto()


class ToolCallParser:
    """The state of one choice."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._finder = MarkerFinder(spelling.opens)
        self._scanner = JsonScanner()
        self._told = False
        self._held = ""
        self._at = _At.CONTENT if spelling.opens else self._inside()

    def add(self, piece: str) -> list[Said]:
        """Take the next piece."""
        said: list[Said] = []
        rest: str | None = piece
        while rest:
            rest = self._step(rest, said)
        return said

    def finish(self) -> list[Said]:
        """Return what was held back in vain."""
        if self._at is _At.CONTENT:
            held = self._finder.finish()
        else:
            held, self._held = self._held, ""
            if self._at is not _At.HEAD or not held.strip():
                return []
            held = self._spelling.opens + held
        return [Content(held)] if held else []

    def _inside(self) -> _At:
        return _At.ARRAY if self._spelling.array else _At.HEAD

    def _step(self, text: str, said: list[Said]) -> str | None:
        """Go on from one place to the next; return what is left to look at, None where more must come."""
        match self._at:
            case _At.CONTENT:
                return self._content(text, said)
            case _At.ARRAY:
                return self._array(text)
            case _At.HEAD:
                return self._head(self._held + text, said)
            case _At.ARGUMENTS:
                return self._arguments(text, said)
            case _At.TAIL:
                return self._tail(self._held + text)

    def _content(self, text: str, said: list[Said]) -> str | None:
        cut = self._finder.add(text)
        if cut.before:
            said.append(Content(cut.before))
        if cut.after is not None:
            self._at = self._inside()
        return cut.after

    def _array(self, text: str) -> str | None:
        """Pass the array's bracket, and the commas between its calls; its end ends all calls."""
        text = text.lstrip(" \t\r\n,[")
        if text.startswith("]"):
            self._at, self._finder = _At.CONTENT, MarkerFinder(self._spelling.opens or "\0")
            return text[1:]
        if text:
            self._at = _At.HEAD
        return text

    def _head(self, text: str, said: list[Said]) -> str | None:
        self._held = ""
        found = _HEAD.match(text)
        if found is not None:
            said.append(CallBegun(json.loads(found[1])))
            self._at, self._scanner, self._told = _At.ARGUMENTS, JsonScanner(), False
            return text[found.end() :]
        body, closed, rest = text.partition(self._spelling.closes)
        if closed and not self._spelling.array:
            said.extend(_whole(body) or [Content(self._spelling.opens + body + closed)])
            self._at, self._finder = _At.CONTENT, MarkerFinder(self._spelling.opens)
            return rest
        if len(text) > _LONGEST_HEAD:
            said.append(Content(self._spelling.opens + text))
            self._at, self._finder = _At.CONTENT, MarkerFinder(self._spelling.opens or "\0")
            return None
        self._held = text
        return None

    def _arguments(self, text: str, said: list[Said]) -> str | None:
        if not self._told:
            text = text.lstrip()  # of the head, when a piece ended before it
            self._told = bool(text)
        end = self._scanner.end(text)
        told = text if end is None else text[:end]
        if told:
            said.append(Arguments(told))
        if end is None:
            return None
        self._at = _At.TAIL
        return text[end:]

    def _tail(self, text: str) -> str | None:
        """Pass the object's own end, and the marker behind it."""
        self._held = ""
        rest = text.lstrip()
        if rest.startswith("}") and self._spelling.array:
            self._at = _At.ARRAY
            return rest[1:]
        _, closed, after = rest.partition(self._spelling.closes)
        if closed and not self._spelling.array:
            self._at, self._finder = _At.CONTENT, MarkerFinder(self._spelling.opens)
            return after
        self._held = text
        return None


def _whole(body: str) -> list[Said]:
    """Return the call of an object whose members come in another order; none if it is no call."""
    try:
        found = json.loads(body)
    except ValueError:
        return []
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return []
    arguments = found.get("arguments", found.get("parameters", {}))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return [CallBegun(found["name"]), Arguments(text)]
