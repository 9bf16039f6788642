"""Grammar specifications as clients send them, and the size limits checked before compilation."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_CHARACTERS: Final = 64 * 2**10
"""Maximum length of a grammar's text."""
MAX_DEPTH: Final = 128
"""Maximum nesting of objects and arrays in a JSON schema, or of groups in a regular expression or rule."""
_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\\.', re.DOTALL)
_BRACKETS: Final = re.compile(r"[][{}()]")


class GrammarKind(StrEnum):
    """The language of `GrammarSpec.text`."""

    JSON_SCHEMA = "JsonSchema"
    REGEX = "Regex"
    LARK = "Lark"


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """A grammar as the client wrote it; equal specs are compiled once."""

    kind: GrammarKind
    text: str


class GrammarRejected(Exception):
    """The grammar does not compile or exceeds a limit; the message is one line that names the limit and the remedy."""


def check_size(spec: GrammarSpec) -> None:
    """Check that `spec` is small enough to compile.

    Raises:
        GrammarRejected: its text is too long, or nested too deeply.
    """
    size = len(spec.text)
    if size > MAX_CHARACTERS:
        raise GrammarRejected(f"the grammar has {size} characters, more than {MAX_CHARACTERS}")
    depth = _depth(spec.text)
    if depth > MAX_DEPTH:
        raise GrammarRejected(f"the grammar is nested {depth} levels deep, more than {MAX_DEPTH}")


def _depth(text: str) -> int:
    """Return the nesting depth of brackets outside strings and escapes."""
    deepest = depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        depth = depth + 1 if bracket in "[{(" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest
