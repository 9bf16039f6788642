"""What an attention backend is: where keys and values lie, and how a packed step attends to them."""

from dataclasses import dataclass
from typing import Protocol

import torch

from penstock_runtime.models.decoders.packing import PackedBatch


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The shape of one layer's attention; all layers of a model agree."""

    query: int
    kv: int
    size: int


@dataclass(frozen=True, slots=True)
class Geometry:
    """What a cache is laid out for."""

    heads: HeadShape
    block_tokens: int
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class LayerRule:
    """How one layer attends."""

    scaling: float
    softcap: float | None = None
    """scores become softcap * tanh(scores / softcap)."""
    window: int | None = None
    """Only the last so many positions, the token's own included; None: all."""


class AttentionBackend(Protocol):
    """Owns the layout of a block; never which block is whose."""

    name: str

    def allocate(self, blocks: int) -> torch.Tensor:
        """Return one layer's cache: the first axis is [2 * blocks]: keys of block b at b, values at blocks + b."""

    def begin(self, packed: PackedBatch) -> None:
        """Prepare what all layers of this step share."""

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
