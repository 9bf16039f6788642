"""Attention over keys and values that lie in order: torch's SDPA, or its arithmetic where scores are capped."""

import math
from dataclasses import dataclass, field

import torch
from torch.nn.functional import scaled_dot_product_attention

from penstock_runtime.models.decoders.attention.base import LayerRule


@dataclass(slots=True)
class Masks:
    """Where queries may look, by the window of a layer: made once a step, however many layers share it."""

    ahead: torch.Tensor
    """[..., queries or rows, longest]: query position minus key position; where it is negative nobody looks."""
    _held: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def of(self, window: int | None) -> torch.Tensor:
        """Return True where a query may look, of the shape of `ahead`."""
        held = self._held.get(window)
        if held is None:
            held = self.ahead >= 0
            if window is not None:
                held &= self.ahead < window
            self._held[window] = held
        return held


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    rule: LayerRule,
) -> torch.Tensor:
    """Return [rows, heads, queries, size] for `query` of that shape; of `key` and `value` there may be fewer heads."""
    groups = query.shape[1] // key.shape[1]
    if rule.softcap is None:
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=rule.scaling, enable_gqa=groups > 1
        )
    scores = query @ key.repeat_interleave(groups, 1).transpose(2, 3) * rule.scaling
    scores = torch.tanh(scores / rule.softcap) * rule.softcap
    scores = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return scores @ value.repeat_interleave(groups, 1)
