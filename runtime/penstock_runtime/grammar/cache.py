"""Compiled grammars, kept while they are asked for: the HTTP side compiles off its loop, the engine takes copies."""

import json
import threading
from collections import OrderedDict
from typing import Final

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from penstock_runtime.generation.grammar import GrammarKind, GrammarSpec
from penstock_runtime.grammar.matcher import Matcher, first_line

MOST_CHARACTERS: Final = 64 * 2**10
"""Of a grammar's text: a longer one is refused before anything is compiled."""
MOST_KEPT: Final = 256
LIMITS: Final = LLParserLimits(
    initial_lexer_fuel=1_000_000,  # about 20 ms
    step_lexer_fuel=200_000,  # about 15 ms: what one mask may cost at most
    max_lexer_states=50_000,  # about 75 MB
    max_grammar_size=100_000,
    verbose_errors=False,
)
"""A grammar that exceeds one of them is refused, or fails its own request: it can spoil no other."""
WHITESPACE: Final = r"[\x20\x0A]{0,12}"
"""A model may indent its JSON, but not write spaces until its tokens are used up."""


class GrammarCache:
    """A `GrammarSource` for one tokenizer; any thread may ask."""

    def __init__(
        self, tokenizer_json: str, vocabulary: int, end_ids: frozenset[int], most: int = MOST_KEPT
    ) -> None:
        """`vocabulary` counts logits, which may be more than the tokenizer has ids."""
        self._tokenizer_json = tokenizer_json
        self._vocabulary = vocabulary
        self._end_ids = sorted(end_ids)
        self._most = most
        self._tokenizer: LLTokenizer | None = None
        self._compiled: OrderedDict[GrammarSpec, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()

    def knows(self, spec: GrammarSpec) -> bool:
        """Return whether `spec` is compiled already."""
        with self._lock:
            return spec in self._compiled

    def start(self, spec: GrammarSpec) -> Matcher:
        """Return a fresh state for `spec`, compiled before or now.

        Raises:
            ValueError: it does not compile, in one line.
        """
        with self._lock:
            held = self._compiled.get(spec)
            if held is not None:
                self._compiled.move_to_end(spec)
        if held is None:
            held = self._compile(spec)
            with self._lock:
                self._compiled[spec] = held
                while len(self._compiled) > self._most:
                    self._compiled.popitem(last=False)
        return Matcher(held.deep_copy(), self._vocabulary)

    def _compile(self, spec: GrammarSpec) -> LLMatcher:
        if len(spec.text) > MOST_CHARACTERS:
            raise ValueError(
                f"the grammar has {len(spec.text)} characters, more than {MOST_CHARACTERS}"
            )
        made = LLMatcher(self._shared(), _grammar(spec), log_level=0, limits=LIMITS)
        if made.is_error():
            raise ValueError(first_line(made.get_error()))
        return made

    def _shared(self) -> LLTokenizer:
        """Return the tokenizer's trie, built with the first grammar: it takes a second for a large vocabulary."""
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = LLTokenizer(
                    self._tokenizer_json, n_vocab=self._vocabulary, eos_token=self._end_ids or None
                )
            return self._tokenizer


def _grammar(spec: GrammarSpec) -> str:
    match spec.kind:
        case GrammarKind.JSON_SCHEMA:
            try:
                return LLMatcher.grammar_from_json_schema(
                    spec.text, overrides={"whitespace_pattern": WHITESPACE}
                )
            except (ValueError, json.JSONDecodeError) as error:
                raise ValueError(first_line(str(error))) from error
        case GrammarKind.REGEX:
            return LLMatcher.grammar_from_regex(spec.text)
        case GrammarKind.LARK:
            return LLMatcher.grammar_from_lark(spec.text)
