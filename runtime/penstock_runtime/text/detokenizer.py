"""Incremental detokenizer: converts tokens to text, and emits a character once all of its bytes have arrived."""

import codecs
from collections.abc import Iterable

from penstock_runtime.text.vocabulary import Vocabulary


class Detokenizer:
    """The text of one generation in pieces, which together are the decoding of all of its bytes.

    Invalid UTF-8 becomes U+FFFD as in Python's decoder, as soon as no later byte can complete the sequence.
    """

    __slots__ = ("_decoder", "_skip", "_vocabulary")

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        skip_special: bool = True,
        kept: frozenset[int] = frozenset(),
    ) -> None:
        """`skip_special` omits control tokens except those in `kept`."""
        self._vocabulary = vocabulary
        hidden = vocabulary.special - kept if kept else vocabulary.special
        self._skip = hidden if skip_special else frozenset[int]()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, tokens: Iterable[int]) -> str:
        """Return the text that `tokens` complete."""
        bytes_of = self._vocabulary.bytes_of
        return self._decoder.decode(
            b"".join(bytes_of(token) for token in tokens if token not in self._skip)
        )

    def finish(self) -> str:
        """Return the rest: U+FFFD for a truncated character, else nothing."""
        return self._decoder.decode(b"", final=True)


def detokenize(vocabulary: Vocabulary, tokens: Iterable[int], *, skip_special: bool = True) -> str:
    """Return the whole text of `tokens`."""
    detokenizer = Detokenizer(vocabulary, skip_special=skip_special)
    return detokenizer.add(tokens) + detokenizer.finish()
