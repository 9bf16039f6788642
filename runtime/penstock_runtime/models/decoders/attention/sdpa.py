"""Attention over contiguous keys and values: torch's SDPA, or explicit arithmetic for soft-capped scores."""

import math
from dataclasses import dataclass, field

import torch
from torch.nn.functional import scaled_dot_product_attention

from penstock_runtime.models.decoders.attention.base import LayerRule


@dataclass(slots=True)
class Masks:
    """Attention masks by the window of a layer, computed once per step for all layers."""

    ahead: torch.Tensor
    """[..., queries or rows, longest]: query position minus key position; negative positions are masked."""
    _by_window: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def of(self, window: int | None) -> torch.Tensor:
        """Return a mask of the shape of `ahead`: True where a query attends."""
        mask = self._by_window.get(window)
        if mask is None:
            mask = self.ahead >= 0
            if window is not None:
                mask &= self.ahead < window
            self._by_window[window] = mask
        return mask


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    rule: LayerRule,
) -> torch.Tensor:
    """Return [rows, heads, queries, size] for `query` of that shape; `key` and `value` may have fewer heads."""
    groups = query.shape[1] // key.shape[1]
    if rule.softcap is None:
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=rule.scaling, enable_gqa=groups > 1
        )
    scores = query @ key.repeat_interleave(groups, 1).transpose(2, 3) * rule.scaling
    scores = torch.tanh(scores / rule.softcap) * rule.softcap
    scores = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return scores @ value.repeat_interleave(groups, 1)
