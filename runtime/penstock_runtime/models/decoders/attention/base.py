"""`AttentionBackend`: the layout of keys and values, and the attention of a packed step over them."""

from dataclasses import dataclass
from typing import Protocol

import torch

from penstock_runtime.models.decoders.packing import PackedBatch


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Attention heads of a layer, equal for all layers of a model."""

    query: int
    kv: int
    size: int


@dataclass(frozen=True, slots=True)
class Geometry:
    """Layout parameters of a cache."""

    heads: HeadShape
    block_tokens: int
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class LayerRule:
    """Attention parameters of one layer."""

    scaling: float
    softcap: float | None = None
    """Soft cap of the scores: softcap * tanh(scores / softcap)."""
    window: int | None = None
    """Size of the sliding window in positions, including the token's own; None: full attention."""


class AttentionBackend(Protocol):
    """Defines the layout of blocks and attends over them; the block manager assigns them to sequences."""

    name: str

    def allocate(self, blocks: int) -> torch.Tensor:
        """Return one layer's cache, whose first axis is [2 * blocks]: keys of block b at b, values at blocks + b."""

    def begin(self, packed: PackedBatch) -> None:
        """Prepare the data that all layers of this step share."""

    def attend(
        self,
        cache: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        rule: LayerRule,
    ) -> torch.Tensor:
        """Store `key` and `value` ([T, kv, size]) at the step's slots, then attend causally.

        `query` is [T, query, size]; returns [T, query * size].
        """
