"""The engine ends an answer with its grammar, and fails a request whose grammar breaks."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from penstock_runtime.engine.continuous.engine import GenerationEngine
from penstock_runtime.engine.continuous.grammar.base import (
    Allowed,
    Broken,
    Complete,
    Grammar,
    Verdict,
)
from penstock_runtime.engine.continuous.messages import (
    FinishReason,
)
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.request import GrammarUnenforceable
from tests.unit.runtime.engine.continuous.counting_step import INFO, LIMITS
from tests.unit.runtime.engine.continuous.driver import generate_request

EVERYTHING = np.full(32, 0xFFFFFFFF, np.uint32)


class TwoTokenGrammar:
    """Is complete after two tokens, and breaks after token 3."""

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        self.accepted: list[int] = []
        self.closed = False

    def begin(self) -> None:
        self.verdict = self.verdict or Allowed(EVERYTHING)

    def resume(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.accept(token)

    def accept(self, token: int) -> None:
        self.accepted.append(token)
        self.verdict = Complete() if len(self.accepted) == 2 else Allowed(EVERYTHING)
        if self.accepted[0] == 3:
            self.verdict = Broken("too large")

    def close(self) -> None:
        self.closed = True


class TwoTokenGrammars:
    def __init__(self) -> None:
        self.started: list[TwoTokenGrammar] = []

    def start(self, address: str) -> TwoTokenGrammar:
        assert address == "address"
        self.started.append(TwoTokenGrammar())
        return self.started[-1]

    def wait(self, grammars: Iterable[Grammar], seconds: float) -> None: ...


def test_a_complete_grammar_ends_and_a_broken_one_fails_its_request_alone(driver: Any) -> None:
    source = TwoTokenGrammars()
    driver.loop._engine = driver.engine = GenerationEngine(
        INFO, TokenScheduler(INFO, LIMITS), source
    )
    driver.engine.take(generate_request("whole", [1, 2], tokens=50, grammar="address"), 0.0)
    driver.engine.take(generate_request("breaks", [1, 2, 3], tokens=50, grammar="address"), 0.0)
    driver.engine.take(generate_request("cut", [1] * 5, tokens=1, grammar="address"), 0.0)
    driver.engine.take(generate_request("exact", [1] * 7, tokens=2, grammar="address"), 0.0)
    driver.run()
    assert driver.tokens["whole", 0] == [2, 3]
    assert driver.finished["whole", 0].reason is FinishReason.STOP
    assert driver.ends["breaks"] == GrammarUnenforceable("too large")
    assert driver.finished["cut", 0].reason is FinishReason.LENGTH
    assert driver.finished["exact", 0].reason is FinishReason.STOP, "complete with its last token"
    assert all(grammar.closed for grammar in source.started)


def test_a_grammar_that_leaves_nothing_but_stop_ids_ends_the_answer_below_min_tokens(
    driver: Any,
) -> None:
    params = SamplingParams(max_tokens=9, min_tokens=5, stop_ids=frozenset({2, 40}))
    only_stops = np.zeros(32, np.uint32)
    only_stops[40 // 32] = 1 << 40 % 32
    grammar = TwoTokenGrammar()
    grammar.begin = lambda: setattr(grammar, "verdict", Allowed(only_stops))  # type: ignore[method-assign]
    source = TwoTokenGrammars()
    source.start = lambda _: grammar  # type: ignore[method-assign,assignment]
    driver.loop._engine = driver.engine = GenerationEngine(
        INFO, TokenScheduler(INFO, LIMITS), source
    )
    driver.engine.take(generate_request("a", [1, 2, 3], params=params, grammar="address"), 0.0)
    driver.run()
    assert driver.tokens["a", 0] == []
    assert driver.finished["a", 0].reason is FinishReason.STOP
