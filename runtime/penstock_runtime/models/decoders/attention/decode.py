"""One token a row, from tensors of fixed shapes: nothing looks at a value, so what is done can be recorded and replayed."""

from dataclasses import dataclass

import torch

from penstock_runtime.models.decoders.attention.base import LayerRule
from penstock_runtime.models.decoders.attention.sdpa import Masks, attend


@dataclass(slots=True)
class DecodeRows:
    """What all layers of such a step share. R rows look at `longest` places each, most of them past their end."""

    new: torch.Tensor
    """[R]: the slots that the step's keys and values go to."""
    slots: torch.Tensor
    """[R, longest]: where the keys are. Past a row's end its first is named: another's could hold NaN, and 0 times
    NaN is NaN."""
    masks: Masks
    """Of [R, longest]; what is ahead of a query is past its row's end."""

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rule: LayerRule
    ) -> torch.Tensor:
        """Return [R, query, size] for `query` of that shape over stored `keys` and `values` ([slots, kv, size]).

        The heads that share keys stand where SDPA expects queries, so that no key is copied for each of them.
        """
        rows, heads, size = query.shape
        asked = query.view(rows, keys.shape[1], heads // keys.shape[1], size)
        found = (keys[self.slots].transpose(1, 2), values[self.slots].transpose(1, 2))
        return attend(asked, *found, self.masks.of(rule.window)[:, None, None], rule).reshape(
            rows, heads, size
        )


def decode_rows(positions: torch.Tensor, tables: torch.Tensor, block_tokens: int) -> DecodeRows:
    """Return the rows that feed a token at each of `positions` ([R]), over block tables [R, widest] (both int64).

    Entries of a table past a row's end may name any block.
    """
    offsets = torch.arange(block_tokens, device=tables.device)
    slots = (tables[:, :, None] * block_tokens + offsets).flatten(1)
    at = torch.arange(slots.shape[1], device=tables.device)
    ahead = positions[:, None] - at
    new = slots.gather(1, positions[:, None])[:, 0]
    return DecodeRows(new, torch.where(ahead >= 0, slots, slots[:, :1]), Masks(ahead))
