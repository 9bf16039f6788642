"""`DecodeRows`: attention of one token per row over tensors of fixed shapes, which a CUDA graph can capture."""

from dataclasses import dataclass

import torch

from penstock_runtime.models.decoders.attention.base import LayerRule
from penstock_runtime.models.decoders.attention.sdpa import Masks, attend


@dataclass(slots=True)
class DecodeRows:
    """Data shared by all layers of a decode step. Each of R rows attends to `longest` slots, including padding."""

    new: torch.Tensor
    """[R]: slots for the keys and values of the step."""
    slots: torch.Tensor
    """[R, longest]: slots of the keys. Padding refers to the row's first slot: another row's could contain NaN, and 0 times
    NaN is NaN."""
    masks: Masks
    """Masks of shape [R, longest]; positions ahead of a query are past the end of its row."""

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rule: LayerRule
    ) -> torch.Tensor:
        """Return [R, query, size] for `query` of that shape over stored `keys` and `values` ([slots, kv, size]).

        Heads that share keys are passed to SDPA as queries, so that keys are not copied per head.
        """
        rows, heads, size = query.shape
        grouped = query.view(rows, keys.shape[1], heads // keys.shape[1], size)
        gathered = (keys[self.slots].transpose(1, 2), values[self.slots].transpose(1, 2))
        return attend(grouped, *gathered, self.masks.of(rule.window)[:, None, None], rule).reshape(
            rows, heads, size
        )


def decode_rows(positions: torch.Tensor, tables: torch.Tensor, block_tokens: int) -> DecodeRows:
    """Return the rows that process a token at each of `positions` ([R]), over block tables [R, widest] (both int64).

    Entries of a table past the end of a row may be any block.
    """
    offsets = torch.arange(block_tokens, device=tables.device)
    slots = (tables[:, :, None] * block_tokens + offsets).flatten(1)
    at = torch.arange(slots.shape[1], device=tables.device)
    ahead = positions[:, None] - at
    new = slots.gather(1, positions[:, None])[:, 0]
    return DecodeRows(new, torch.where(ahead >= 0, slots, slots[:, :1]), Masks(ahead))
