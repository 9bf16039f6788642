"""`StringAutomaton`: searches text that arrives in pieces for several strings at once (Aho and Corasick 1975)."""

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat, zip_longest
from typing import Final

_NO_CODE: Final = sys.maxunicode + 1
_NO_STRING: Final = -1


@dataclass(frozen=True, slots=True)
class StringMatch:
    """A string that a piece completes."""

    start: int
    """Its offset from the start of the piece; negative if it began in an earlier piece."""
    order: int
    """Its index among the strings."""


_Transition = tuple[int, int, int]
"""A state, the code point of a character, and the state after it."""


class StringAutomaton:
    """The states are the prefixes of the strings; the current state is the longest prefix that the text so far ends with.

    The amortized work per character is constant, whatever the number and the length of the strings. State 0 is the empty
    prefix. A state takes 16 bytes.
    """

    __slots__ = ("_branches", "_depths", "_fallbacks", "_follows", "_matches", "strings")

    def __init__(self, strings: tuple[str, ...]) -> None:
        """Build the states of `strings`, none of which is empty."""
        self.strings = strings
        self._follows = array("I", [_NO_CODE])
        """Code point with which a state continues to the next number."""
        self._branches: dict[int, dict[int, int]] = {0: {}}
        """All other transitions, by state and code point."""
        self._depths = array("I", [0])
        self._matches = array("i", [_NO_STRING])
        """Index of the longest string that is a suffix."""
        added = [self._insert(order, string) for order, string in enumerate(strings)]
        self._fallbacks = array("I", [0]) * len(self._depths)
        """The longest proper suffix that is a state too."""
        for level in zip_longest(*added):  # the shortest prefixes first
            for transition in filter(None, level):
                self._link(*transition)

    def _insert(self, order: int, string: str) -> Iterator[_Transition | None]:
        """Add the states of a string; yield for each character its transition, None if it existed."""
        codes = array("I", map(ord, string))
        state = shared = 0
        while shared < len(codes) and (child := self._child(state, codes[shared])):
            state, shared = child, shared + 1
        parent, size = state, len(self._depths)
        states = range(size, size + len(codes) - shared)
        if states:
            state = states[-1]
            self._branches.setdefault(parent, {})[codes[shared]] = states[0]
            self._follows.extend([*codes[shared + 1 :], _NO_CODE])
            self._depths.extend(range(shared + 1, len(codes) + 1))
            self._matches.extend([_NO_STRING] * len(states))
        if self._matches[state] == _NO_STRING:
            self._matches[state] = order
        transitions = zip((parent, *states), codes[shared:], states, strict=False)
        return chain(repeat(None, shared), transitions)

    def _link(self, parent: int, code: int, state: int) -> None:
        """Set the fallback of a state, and its match by that."""
        if parent:
            fallback = self._fallbacks[state] = self._next(self._fallbacks[parent], code)
            if self._matches[state] == _NO_STRING:
                self._matches[state] = self._matches[fallback]

    def depth(self, state: int) -> int:
        """Return the length of the prefix."""
        return self._depths[state]

    def scan(self, state: int, piece: str) -> tuple[int, StringMatch | None]:
        """Return the state after `piece`, and the complete string that starts first, of several the first in order.

        After a match the state is invalid.
        """
        first: tuple[int, int] | None = None
        depths, matches, next_state = self._depths, self._matches, self._next
        for end, code in enumerate(map(ord, piece), 1):
            state = next_state(state, code)
            if first is not None and end - depths[state] > first[0]:
                break  # all further matches start later
            order = matches[state]
            if order != _NO_STRING:
                match = end - len(self.strings[order]), order
                first = match if first is None else min(first, match)
        return state, None if first is None else StringMatch(*first)

    def _child(self, state: int, code: int) -> int:
        """Return the state of the prefix with one more character; 0: it is no prefix."""
        if self._follows[state] == code:
            return state + 1
        return self._branches.get(state, {}).get(code, 0)

    def _next(self, state: int, code: int) -> int:
        follows, branches = self._follows, self._branches
        while follows[state] != code:
            if state in branches and (branch := branches[state].get(code)) is not None:
                return branch
            if not state:
                return 0
            state = self._fallbacks[state]
        return state + 1


@lru_cache(maxsize=16)
def automaton_of(strings: tuple[str, ...]) -> StringAutomaton:
    """Return the automaton of `strings`, which all choices share."""
    return StringAutomaton(strings)
