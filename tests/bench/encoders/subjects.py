"""Subjects of the encoder bench: two models of random weights, with rows of equal length and texts of mixed length."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from penstock_runtime.models.encoders.directory import IDS, MASK
from penstock_runtime.request import Tensor
from penstock_runtime.serving.tokenizer_pool import rows_of
from tests.support.encoders.directories import SPECIAL, WORDS, write

NUMBER: Final = 128
"""Number of distinct rows, so that no server can answer from a cache."""
BATCH: Final = 32
"""Batch size of the raw limits."""
FOR_PEERS: Final = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}  # fmt: skip
"""Tokenizer settings that sentence-transformers requires; Penstock reads `tokenizer.json`."""


@dataclass(frozen=True)
class Subject:
    """A model, and the rows that clients send."""

    name: str
    width: int
    layers: int
    heads: int
    max_tokens: int
    lengths: tuple[int, ...]
    """Lengths of the rows in tokens, including special tokens."""

    def folder(self, root: Path) -> Path:
        """Return the model's directory below `root`, written if it is not there."""
        folder = root / self.name
        if not (folder / "model.safetensors").exists():
            write(folder, width=self.width, layers=self.layers, heads=self.heads, max_tokens=self.max_tokens)  # fmt: skip
        tokenizer = {"model_max_length": self.max_tokens} | FOR_PEERS
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
        return folder

    def texts(self) -> list[str]:
        """Return the texts whose tokens are the rows."""
        draw = random.Random(1)  # noqa: S311 - reproducible
        return [
            " ".join(f"w{draw.randrange(WORDS)}" for _ in range(size - 2)) for size in self.lengths
        ]

    def rows(self) -> list[list[int]]:
        """Return the token ids."""
        return [
            [2, *(len(SPECIAL) + int(word[1:]) for word in text.split()), 3]
            for text in self.texts()
        ]

    def inputs(self, order: list[int]) -> dict[str, Tensor]:
        """Return the batch of the rows in `order`, padded to its longest."""
        rows = self.rows()
        inputs = rows_of([np.array(rows[at], np.int64) for at in order])
        return {IDS: inputs[IDS], MASK: inputs[MASK]}


def _mixed() -> tuple[int, ...]:
    """Return the lengths of typical sentences: lognormal, median 22, from 4 to 128."""
    draw = random.Random(7)  # noqa: S311 - as above
    return tuple(min(128, max(4, round(draw.lognormvariate(3.1, 0.7)))) for _ in range(NUMBER))


ENCODER: Final = Subject("encoder", 128, 2, 2, 128, (128,) * NUMBER)
EMBEDDER: Final = Subject("embedder", 384, 6, 12, 512, _mixed())
"""MiniLM's dimensions."""
SUBJECTS: Final = (ENCODER, EMBEDDER)
