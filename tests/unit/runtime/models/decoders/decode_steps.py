"""Decode steps over scattered blocks of a cache with random content."""

import numpy as np
import torch

from penstock_runtime.models.decoders.packing import PackedBatch, positions_of
from penstock_runtime.models.decoders.step import TorchStep
from tests.unit.runtime.models.decoders.tiny_models import VOCABULARY

BLOCK_TOKENS = 8


def decodes(contexts: list[int], seed: int = 0, blocks: int = 60) -> PackedBatch:
    """Return a step of one token a row, each behind so many positions, over scattered blocks."""
    chance = np.random.default_rng(seed)
    each = [-(-(context + 1) // BLOCK_TOKENS) for context in contexts]
    free = chance.permutation(blocks).astype(np.int32)
    tables = np.zeros((len(contexts), max(each)), np.int32)
    for row, count in enumerate(each):
        tables[row, :count], free = free[:count], free[count:]
    ids = chance.integers(0, VOCABULARY, len(contexts))
    starts = np.arange(len(contexts) + 1)
    return positions_of(ids, tables, np.array(contexts), starts, BLOCK_TOKENS)


def fill(step: TorchStep) -> None:
    """Give every block of the cache some random content."""
    generator = torch.Generator().manual_seed(1)
    for layer in step._store.layers:
        layer.copy_(torch.randn(layer.shape, generator=generator, dtype=layer.dtype))
