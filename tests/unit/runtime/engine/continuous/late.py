"""A source of grammars that allow everything, whose verdicts come when chance wants: the engine must lose no token."""

from collections.abc import Iterable, Sequence
from random import Random

import numpy as np

from penstock_runtime.engine.continuous.grammar.base import Allowed, Broken, Grammar, Verdict


class LateGrammar:
    """Every other verdict or so is late, some by many steps."""

    def __init__(self, words: int, accepted: list[int]) -> None:
        self.verdict: Verdict | None = None
        self.accepted = accepted
        self.asked = False
        self._words = words

    def begin(self) -> None:
        self.asked = True

    def resume(self, tokens: Sequence[int]) -> None:
        self.asked = True
        self.accepted.extend(tokens)

    def accept(self, token: int) -> None:
        assert self.verdict is not None, "a token was drawn without a mask"
        self.accepted.append(token)
        self.verdict = None

    def close(self) -> None:
        self.verdict = Broken("closed")

    def tell(self) -> None:
        """Let the verdict come."""
        assert self.asked
        self.verdict = Allowed(np.full(self._words, 0xFFFFFFFF, np.uint32))


class LateGrammars:
    """A grammar source with random delays, from a seed."""

    def __init__(self, vocabulary: int, seed: int, share: float = 0.4) -> None:
        self.late = 0
        self._words = (vocabulary + 31) // 32
        self._chance = Random(seed)  # noqa: S311 - no secret
        self._share = share

    def start(self, address: str) -> LateGrammar:
        return LateGrammar(self._words, [])

    def wait(self, grammars: Iterable[Grammar], seconds: float) -> None:
        for grammar in grammars:
            if isinstance(grammar, LateGrammar) and grammar.verdict is None:
                if self._chance.random() < self._share:
                    self.late += 1
                else:
                    grammar.tell()
