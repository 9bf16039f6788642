"""One tokenizer and one cache of grammars for both sides of the link: what the HTTP side compiled, the engine finds."""

import threading
from pathlib import Path

from penstock_runtime.generation.limits import GenerationInfo
from penstock_runtime.grammar.cache import GrammarCache
from penstock_runtime.text.tokenizer import Tokenizer, load_tokenizer


class SharedGrammars:
    """Reads the tokenizer, and makes the cache when the model's vocabulary is known; any thread may ask."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._tokenizer: Tokenizer | None = None
        self._cache: GrammarCache | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, read now if it was not.

        Raises:
            TokenizerRefused: the folder holds none that can be used.
        """
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = load_tokenizer(self._folder)
            return self._tokenizer

    def of(self, info: GenerationInfo) -> GrammarCache:
        """Return the one cache."""
        tokenizer = self.tokenizer
        with self._lock:
            if self._cache is None:
                ends = tokenizer.end_ids | frozenset(info.stop_ids)
                self._cache = GrammarCache(tokenizer.to_json(), info.vocabulary, ends)
            return self._cache
