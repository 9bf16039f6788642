"""`ToolCallParser`: streams tool calls out of a model's text, first the name, then the arguments piece by piece.

Three formats: objects between markers (`<tool_call>{...}</tool_call>`: Hermes, Qwen), an array after a marker
(`[TOOL_CALLS][...]`: Mistral, whose newer models write `[TOOL_CALLS]name[ARGS]{...}`), and a bare array, which a
grammar enforces where a tool is required. An object is `{"name": ..., "arguments": {...}}`, or `parameters` for
`arguments`; further members such as an id are skipped. Any other text is content: only the whitespace between calls
is dropped.
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
"""Format of Mistral's tokenizers since version 11."""
_MAX_BUFFERED: Final = 4096
"""Characters that are buffered as a possible call, the end of one, or whitespace after one; longer text is content."""


@dataclass(frozen=True, slots=True)
class ToolCallFormat:
    """Format in which a model writes calls."""

    opens: str
    """Marker before the first call; empty: the text begins with calls."""
    closes: str
    """Marker after a call, or after the array."""
    array: bool = False
    within: tuple[str, ...] = ()
    """Markers between a name and its arguments, where a call needs no enclosing object."""

    @property
    def markers(self) -> tuple[str, ...]:
        """All markers; calls are not recognized unless the text contains them."""
        return (self.opens, self.closes, *self.within)


HERMES: Final = ToolCallFormat("<tool_call>", "</tool_call>")
MISTRAL: Final = ToolCallFormat("[TOOL_CALLS]", "]", array=True, within=("[CALL_ID]", "[ARGS]"))
BARE: Final = ToolCallFormat("", "]", array=True)


def format_of(template: str) -> ToolCallFormat | None:
    """Return the call format of a chat template; None: no known format."""
    for known in (HERMES, MISTRAL):
        if known.opens in template:
            return known
    return None


@dataclass(frozen=True, slots=True)
class Content:
    """Text outside of calls."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """Start of the next call: the name of its function."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """A piece of the arguments of the latest call, as JSON text."""

    text: str


ToolCallEvent = Content | CallBegun | Arguments


class _State(Enum):
    CONTENT = auto()
    ARRAY = auto()
    HEAD = auto()
    ARGUMENTS = auto()
    TAIL = auto()


class ToolCallParser:
    """State of one choice."""

    def __init__(self, call_format: ToolCallFormat) -> None:
        self._format = call_format
        self._finder = MarkerFinder(call_format.opens)
        self._scanner = JsonScanner()
        self._arguments_begun = False
        self._flat = False
        self._quoted = False
        """Whether the arguments are JSON in a string, which is emitted once it is complete."""
        self._buffer = ""
        self._space: str | None = None
        """Whitespace after a call, dropped if another call follows; None: no call yet."""
        self._state = _State.CONTENT if call_format.opens else self._inside()

    def add(self, piece: str) -> list[ToolCallEvent]:
        """Process the next piece."""
        events: list[ToolCallEvent] = []
        rest: str | None = piece
        while rest:
            rest = self._step(rest, events)
        return events

    def finish(self) -> list[ToolCallEvent]:
        """Return the events of the buffered text."""
        rest, self._buffer = self._buffer, ""
        match self._state:
            case _State.CONTENT:
                rest = (self._space or "") + self._finder.finish()
                return [Content(rest)] if rest and (self._space is None or rest.strip()) else []
            case _State.HEAD if rest.strip():
                whole = [] if self._format.array else _whole(rest)
                return whole or [Content(self._format.opens + rest)]
            case _State.ARGUMENTS if rest:
                return [Arguments(rest)]
            case _State.TAIL:
                return self._unclosed(rest)
            case _:
                return []

    def _inside(self) -> _State:
        return _State.ARRAY if self._format.array else _State.HEAD

    def _step(self, text: str, events: list[ToolCallEvent]) -> str | None:
        """Advance the state machine; return the unprocessed text, or None if more input is needed."""
        match self._state:
            case _State.CONTENT:
                return self._content(text, events)
            case _State.ARRAY:
                return self._array(text)
            case _State.HEAD:
                return self._head(self._buffer + text, events)
            case _State.ARGUMENTS:
                return self._arguments(text, events)
            case _State.TAIL:
                return self._tail(self._buffer + text, events)

    def _content(self, text: str, events: list[ToolCallEvent]) -> str | None:
        cut = self._finder.add(text)
        before = (self._space or "") + cut.before
        if self._space is not None and len(before) <= _MAX_BUFFERED and not before.strip():
            self._space = before
        elif before:
            events.append(Content(before))
            self._space = None
        if cut.after is not None:
            self._state = self._inside()
        return cut.after

    def _array(self, text: str) -> str | None:
        """Skip the array's bracket and the commas between its calls; its end ends all calls."""
        text = text.lstrip(" \t\r\n,[")
        if text.startswith("]"):
            self._search()
            return text[1:]
        if text:
            self._state = _State.HEAD
        return text

    def _head(self, text: str, events: list[ToolCallEvent]) -> str | None:
        self._buffer = ""
        begun = self._begun(text)
        if begun is not None:
            events.append(CallBegun(begun[0]))
            self._state, self._scanner, self._arguments_begun = (
                _State.ARGUMENTS,
                JsonScanner(),
                False,
            )
            return text[begun[1] :]
        body, closed, rest = text.partition(self._format.closes)
        if closed and not self._format.array:
            whole = _whole(body)
            events.extend(whole or [Content(self._format.opens + body + closed)])
            self._search(called=bool(whole))
            return rest
        if len(text) > _MAX_BUFFERED:
            events.append(Content(self._format.opens + text))
            self._search(called=False)
            return None
        self._buffer = text
        return None

    def _begun(self, text: str) -> tuple[str, int] | None:
        """Return the name of the call at the start of `text` and the offset of its arguments."""
        flat = _FLAT.match(text) if self._format.within else None
        self._flat = flat is not None
        if flat is not None:
            return flat[1], flat.end()
        head = _HEAD.match(text)
        name = _read(head[1]) if head is not None else None
        return (name, head.end()) if head is not None and isinstance(name, str) else None

    def _arguments(self, text: str, events: list[ToolCallEvent]) -> str | None:
        if not self._arguments_begun:
            text = text.lstrip()  # whitespace of the head, if a piece ended before it
            self._arguments_begun, self._quoted = bool(text), text.startswith('"')
        end = self._scanner.end(text)
        part = text if end is None else text[:end]
        if self._quoted:
            self._buffer += part
        elif part:
            events.append(Arguments(part))
        if end is None:
            return None
        if self._quoted:
            events.append(Arguments(_unquoted(self._buffer)))
            self._buffer = ""
        self._state, self._scanner = _State.TAIL, JsonScanner(depth=1)
        if self._flat:
            self._search()
        return text[end:]

    def _tail(self, text: str, events: list[ToolCallEvent]) -> str | None:
        """Skip the rest of the object and the closing marker, which a model may omit before the next call."""
        self._buffer = ""
        if self._format.array:
            end = self._scanner.end(text)
            self._state = _State.TAIL if end is None else _State.ARRAY
            return None if end is None else text[end:]
        before, closed, after = text.partition(self._format.closes)
        _, opened, inside = before.partition(self._format.opens)
        if opened:
            self._state = _State.HEAD
            return inside + closed + after
        if closed:
            self._search()
            return after
        if len(text) > _MAX_BUFFERED:
            events.extend(self._unclosed(text))
            self._search(called=False)
            return None
        self._buffer = text
        return None

    def _unclosed(self, text: str) -> list[ToolCallEvent]:
        """Return the text after a call without a closing marker."""
        rest = text.lstrip().removeprefix("}")
        begun = self._format.closes.startswith(rest.strip())
        return [] if begun else [Content(rest)]

    def _search(self, *, called: bool = True) -> None:
        """Search for the next call; `called`: a call has just ended."""
        self._state, self._finder = _State.CONTENT, MarkerFinder(self._format.opens or "\0")
        self._space = "" if called else None


def _read(text: str) -> Any:
    """Return the value of a JSON text; None if it is invalid, too deep, or has an unpaired surrogate."""
    try:
        return from_json(text)
    except ValueError:
        return None


def _unquoted(text: str) -> str:
    value = _read(text)
    return value if isinstance(value, str) else text


def _whole(body: str) -> list[ToolCallEvent]:
    """Return the call of an object whose members are in another order; empty if it is not a call."""
    call = _read(body)
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return []
    arguments = call.get("arguments", call.get("parameters", {}))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return [CallBegun(call["name"]), Arguments(text)]
