"""What a structured answer is to the engine: a state that allows some next tokens and moves on with each."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class GrammarKind(StrEnum):
    """What `GrammarSpec.text` holds."""

    JSON_SCHEMA = "JsonSchema"
    REGEX = "Regex"
    LARK = "Lark"


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """A grammar as it crosses from the HTTP side: text that already compiled there once."""

    kind: GrammarKind
    text: str


class Grammar(Protocol):
    """The state of one generation under a grammar; lives in the request, so preemption cannot lose it."""

    def mask(self) -> NDArray[np.uint32]:
        """Return ceil(vocabulary / 32) words, bit t % 32 of word t // 32 set where token t may follow."""

    def accept(self, token: int) -> bool:
        """Move on; return whether the answer is complete, so that nothing but a stop id may follow."""


class GrammarSource(Protocol):
    """Where the engine gets grammars from; compiled off the loop, cached and bounded by its owner."""

    def start(self, spec: GrammarSpec) -> Grammar:
        """Return a fresh state for `spec`; raise ValueError, in one line, if it does not compile."""
