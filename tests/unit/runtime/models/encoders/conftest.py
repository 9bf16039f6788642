"""Encoders of random weights in directories, made once: small enough that a test takes milliseconds."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from penstock_api.types.model import Task
from penstock_runtime.engine.model import Model
from penstock_runtime.models.encoders.load import load_encoder
from penstock_runtime.request import Tensor
from tests.support.encoders.directories import SPECIAL, WORDS, write

LABELS = ("bad", "good", "mixed")
Loaded = Callable[..., Model]


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return the directory of a family, with labels or without."""
    root = tmp_path_factory.mktemp("encoders")

    def directory(family: str, *, labels: bool = False) -> Path:
        folder = root / f"{family}-{labels}"
        if not folder.exists():
            write(folder, family, labels=LABELS if labels else ())
        return folder

    return directory


@pytest.fixture
def loaded(directories: Callable[..., Path]) -> Loaded:
    """Return a family's encoder as it is served."""

    def load(family: str, *, labels: bool = False) -> Model:
        task = Task.CLASSIFICATION if labels else Task.EMBEDDING
        return load_encoder(directories(family, labels=labels), task)

    return load


def texts(*lengths: int, seed: int = 0) -> dict[str, Tensor]:
    """Return rows of random ids, as long as is said, zeros behind them."""
    random = np.random.default_rng(seed)
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    ids = random.integers(len(SPECIAL), len(SPECIAL) + WORDS, mask.shape)
    return {"input_ids": ids * mask, "attention_mask": mask}
