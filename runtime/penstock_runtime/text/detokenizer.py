"""Tokens to text as they come: a character is told once all of its bytes are there."""

import codecs
from collections.abc import Iterable

from penstock_runtime.text.vocabulary import Vocabulary


class Detokenizer:
    """The text of one generation. Its pieces together are the text of its bytes together.

    Bytes that are no UTF-8 become U+FFFD as Python's decoder has it, as soon as no later byte can mend them.
    """

    __slots__ = ("_decoder", "_skip", "_vocabulary")

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        skip_special: bool = True,
        kept: frozenset[int] = frozenset(),
    ) -> None:
        """`skip_special` leaves control tokens out, but for those in `kept`."""
        self._vocabulary = vocabulary
        hidden = vocabulary.special - kept if kept else vocabulary.special
        self._skip = hidden if skip_special else frozenset[int]()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, tokens: Iterable[int]) -> str:
        """Return what `tokens` complete."""
        bytes_of = self._vocabulary.bytes_of
        return self._decoder.decode(
            b"".join(bytes_of(token) for token in tokens if token not in self._skip)
        )

    def finish(self) -> str:
        """Return what is left: a character that was cut off, as U+FFFD."""
        return self._decoder.decode(b"", final=True)


def detokenize(vocabulary: Vocabulary, tokens: Iterable[int], *, skip_special: bool = True) -> str:
    """Return the whole text of `tokens`."""
    one = Detokenizer(vocabulary, skip_special=skip_special)
    return one.add(tokens) + one.finish()
