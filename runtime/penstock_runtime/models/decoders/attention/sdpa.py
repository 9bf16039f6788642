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
    mask: torch.Tensor | None,
    rule: LayerRule,
) -> torch.Tensor:
    """Return [rows, heads, queries, size] for `query` of that shape; `key` and `value` may have fewer heads.

    Without a mask, query i attends to keys 0 to i, which must be as many as the queries.
    """
    groups = query.shape[1] // key.shape[1]
    if mask is None:
        return scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=rule.scaling, enable_gqa=groups > 1
        )
    if rule.softcap is None and groups > 1 and query.is_cuda:
        return attend_folded(query, key, value, mask, rule.scaling)
    if rule.softcap is None:
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=rule.scaling, enable_gqa=groups > 1
        )
    scores = query @ key.repeat_interleave(groups, 1).transpose(2, 3) * rule.scaling
    scores = torch.tanh(scores / rule.softcap) * rule.softcap
    scores = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return scores @ value.repeat_interleave(groups, 1)


def attend_folded(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Return the same with the heads that share keys as further queries of one head.

    On CUDA only FlashAttention, which takes no mask, and explicit arithmetic accept fewer heads of keys than of queries
    (torch's documentation of `enable_gqa`).
    """
    rows, heads, queries, size = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(rows, key.shape[1], groups * queries, size)
    repeated = mask.expand(rows, 1, queries, -1).repeat(1, 1, groups, 1)
    attended = scaled_dot_product_attention(folded, key, value, attn_mask=repeated, scale=scaling)
    return attended.reshape(rows, heads, queries, size)
