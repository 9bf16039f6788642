"""Calls of tools in a model's text, told as they come: first the name, then the arguments as they are written.

Three spellings: objects between markers (`<tool_call>{...}</tool_call>`: Hermes, Qwen), an array behind a
marker (`[TOOL_CALLS][...]`: Mistral; the newer ones write `[TOOL_CALLS]name[ARGS]{...}`), and a bare array, which a grammar enforces where a tool is required.
An object is `{"name": ..., "arguments": {...}}`, or `parameters` for `arguments`; what follows in it, an id perhaps,
is passed over. What is spelt otherwise is content: nothing that a model said is dropped but the space between calls.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from pydantic_core import from_json

from penstock_runtime.text.json_scan import JsonScanner
from penstock_runtime.text.marker_finder import MarkerFinder

_HEAD: Final = re.compile(
    r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*', re.DOTALL
)
_FLAT: Final = re.compile(r"([\w.-]+)(?:\[CALL_ID\]\w*)?\[ARGS\]\s*")
"""Of Mistral's tokenizers from version 11 on."""
_MAX_BUFFERED: Final = 4096
"""Characters behind a marker that are kept back for being a call, or the end of one; beyond them they are content."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a model writes calls."""

    opens: str
    """Before the first call; empty: the text begins with calls."""
    closes: str
    """After a call, or after the array."""
    array: bool = False
    within: tuple[str, ...] = ()
    """Between a name and its arguments, where a call may be written without an object around it."""

    @property
    def markers(self) -> tuple[str, ...]:
        """What must not be missing in a text for its calls to be found."""
        return (self.opens, self.closes, *self.within)


HERMES: Final = Spelling("<tool_call>", "</tool_call>")
MISTRAL: Final = Spelling("[TOOL_CALLS]", "]", array=True, within=("[CALL_ID]", "[ARGS]"))
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


ToolCallEvent = Content | CallBegun | Arguments


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
        self._flat = False
        self._quoted = False
        """Whether the arguments are JSON in a string, which is told once it is whole."""
        self._held = ""
        self._space: str | None = None
        """After a call, what may be no more than the space before the next; None: there was no call."""
        self._at = _At.CONTENT if spelling.opens else self._inside()

    def add(self, piece: str) -> list[ToolCallEvent]:
        """Take the next piece."""
        said: list[ToolCallEvent] = []
        rest: str | None = piece
        while rest:
            rest = self._step(rest, said)
        return said

    def finish(self) -> list[ToolCallEvent]:
        """Return what was held back in vain."""
        held, self._held = self._held, ""
        match self._at:
            case _At.CONTENT:
                held = (self._space or "") + self._finder.finish()
                return [Content(held)] if held and (self._space is None or held.strip()) else []
            case _At.HEAD if held.strip():
                whole = [] if self._spelling.array else _whole(held)
                return whole or [Content(self._spelling.opens + held)]
            case _At.ARGUMENTS if held:
                return [Arguments(held)]
            case _At.TAIL:
                return self._unclosed(held)
            case _:
                return []

    def _inside(self) -> _At:
        return _At.ARRAY if self._spelling.array else _At.HEAD

    def _step(self, text: str, said: list[ToolCallEvent]) -> str | None:
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
                return self._tail(self._held + text, said)

    def _content(self, text: str, said: list[ToolCallEvent]) -> str | None:
        cut = self._finder.add(text)
        before = (self._space or "") + cut.before
        if self._space is not None and not before.strip():
            self._space = before
        elif before:
            said.append(Content(before))
            self._space = None
        if cut.after is not None:
            self._at = self._inside()
        return cut.after

    def _array(self, text: str) -> str | None:
        """Pass the array's bracket, and the commas between its calls; its end ends all calls."""
        text = text.lstrip(" \t\r\n,[")
        if text.startswith("]"):
            self._look()
            return text[1:]
        if text:
            self._at = _At.HEAD
        return text

    def _head(self, text: str, said: list[ToolCallEvent]) -> str | None:
        self._held = ""
        begun = self._begun(text)
        if begun is not None:
            said.append(CallBegun(begun[0]))
            self._at, self._scanner, self._told = _At.ARGUMENTS, JsonScanner(), False
            return text[begun[1] :]
        body, closed, rest = text.partition(self._spelling.closes)
        if closed and not self._spelling.array:
            whole = _whole(body)
            said.extend(whole or [Content(self._spelling.opens + body + closed)])
            self._look(called=bool(whole))
            return rest
        if len(text) > _MAX_BUFFERED:
            said.append(Content(self._spelling.opens + text))
            self._look(called=False)
            return None
        self._held = text
        return None

    def _begun(self, text: str) -> tuple[str, int] | None:
        """Return the name of the call that `text` begins with, and where its arguments do."""
        flat = _FLAT.match(text) if self._spelling.within else None
        self._flat = flat is not None
        if flat is not None:
            return flat[1], flat.end()
        found = _HEAD.match(text)
        name = _read(found[1]) if found is not None else None
        return (name, found.end()) if found is not None and isinstance(name, str) else None

    def _arguments(self, text: str, said: list[ToolCallEvent]) -> str | None:
        if not self._told:
            text = text.lstrip()  # of the head, when a piece ended before it
            self._told, self._quoted = bool(text), text.startswith('"')
        end = self._scanner.end(text)
        told = text if end is None else text[:end]
        if self._quoted:
            self._held += told
        elif told:
            said.append(Arguments(told))
        if end is None:
            return None
        if self._quoted:
            said.append(Arguments(_unquoted(self._held)))
            self._held = ""
        self._at, self._scanner = _At.TAIL, JsonScanner(depth=1)
        if self._flat:
            self._look()
        return text[end:]

    def _tail(self, text: str, said: list[ToolCallEvent]) -> str | None:
        """Pass the rest of the object, and the marker behind it, which a model may forget before the next call."""
        self._held = ""
        if self._spelling.array:
            end = self._scanner.end(text)
            self._at = _At.TAIL if end is None else _At.ARRAY
            return None if end is None else text[end:]
        before, closed, after = text.partition(self._spelling.closes)
        _, opened, inside = before.partition(self._spelling.opens)
        if opened:
            self._at = _At.HEAD
            return inside + closed + after
        if closed:
            self._look()
            return after
        if len(text) > _MAX_BUFFERED:
            said.extend(self._unclosed(text))
            self._look(called=False)
            return None
        self._held = text
        return None

    def _unclosed(self, text: str) -> list[ToolCallEvent]:
        """Return what follows a call whose closing marker never came."""
        rest = text.lstrip().removeprefix("}")
        begun = self._spelling.closes.startswith(rest.strip())
        return [] if begun else [Content(rest)]

    def _look(self, *, called: bool = True) -> None:
        """Look for the next call; `called`: one has just ended."""
        self._at, self._finder = _At.CONTENT, MarkerFinder(self._spelling.opens or "\0")
        self._space = "" if called else None


def _read(text: str) -> Any:
    """Return what a JSON text says; None where it is none, nests too deeply, or holds half a surrogate pair."""
    try:
        return from_json(text)
    except ValueError:
        return None


def _unquoted(text: str) -> str:
    found = _read(text)
    return found if isinstance(found, str) else text


def _whole(body: str) -> list[ToolCallEvent]:
    """Return the call of an object whose members come in another order; none if it is no call."""
    found = _read(body)
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return []
    arguments = found.get("arguments", found.get("parameters", {}))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return [CallBegun(found["name"]), Arguments(text)]
