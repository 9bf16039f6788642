"""`TextTokenizer`: tokenizes batches of texts for an encoder on the HTTP side, without torch."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from penstock_runtime.engine.model import ModelLoadFailed, describe

# One thread, because the other cores belong to the engine. The library reads this at every call.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

Ids = NDArray[np.int64]


class TextTokenizer:
    """Converts texts to token ids with the model's special tokens; truncates to `max_tokens` on request."""

    def __init__(self, folder: Path, max_tokens: int) -> None:
        """Read `tokenizer.json`; raise ModelLoadFailed if it is invalid."""
        self.max_tokens = max_tokens
        self._whole = _read(folder)
        self._truncating = _read(folder)
        self._truncating.enable_truncation(max_tokens)

    def encode(self, texts: Sequence[str], *, truncate: bool = False) -> list[Ids]:
        """Return the ids of each text; releases the GIL."""
        tokenizer = self._truncating if truncate else self._whole
        return [
            np.array(encoding.ids, np.int64)
            for encoding in tokenizer.encode_batch_fast(list(texts))
        ]


def _read(folder: Path) -> Tokenizer:
    file = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        raise ModelLoadFailed(
            f"file '{file}' is not a tokenizer ({describe(error)}): save it with the tokenizers library"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
