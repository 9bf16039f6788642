"""One generation's state under a grammar, as the engine wants it (`generation.grammar.Grammar`)."""

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray


class Matcher:
    """A state of its own; the compiled grammar behind it is shared."""

    __slots__ = ("_matcher", "_words")

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        self._matcher = matcher
        self._words = (vocabulary + 31) // 32

    def mask(self) -> NDArray[np.uint32]:
        """As `Grammar.mask`.

        Raises:
            RuntimeError: the grammar's work at this place exceeds its bounds; the message says which.
        """
        words = np.zeros(self._words, np.uint32)
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        self._check()
        return words

    def accept(self, token: int) -> bool:
        """As `Grammar.accept`; a token that the mask did not allow raises RuntimeError."""
        self._matcher.consume_token(token)
        self._check()
        return bool(self._matcher.is_stopped())

    def _check(self) -> None:
        if self._matcher.is_error():
            raise RuntimeError(f"the grammar failed: {first_line(self._matcher.get_error())}")


def first_line(text: str, limit: int = 300) -> str:
    """Return the first line of `text` that says something, cut to `limit` characters."""
    line = next((one.strip() for one in text.splitlines() if one.strip()), "")
    return line if len(line) <= limit else line[: limit - 3] + "..."
