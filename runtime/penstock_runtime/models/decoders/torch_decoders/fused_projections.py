"""Fused projections: replaces linear layers with the same input in transformers' modules by one larger layer.

Every architecture with `q_proj`, `k_proj` and `v_proj` calls them one after the other on the same input, and likewise
`gate_proj` and `up_proj`. The first computes all outputs, the others return their stored parts.
"""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

_TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class _First(nn.Module):
    """A fused linear layer; returns the outputs of the first and stores those of the others until they are called."""

    def __init__(self, linears: list[nn.Linear]) -> None:
        super().__init__()
        self.sizes = [linear.out_features for linear in linears]
        weight = torch.cat([linear.weight.detach() for linear in linears])
        self.weight = nn.Parameter(weight, requires_grad=False)
        biases: list[torch.Tensor] = [linear.bias for linear in linears if linear.bias is not None]
        self.bias = nn.Parameter(torch.cat(biases), requires_grad=False) if biases else None
        self.pending: dict[int, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = nn.functional.linear(x, self.weight, self.bias)
        parts = torch.split_with_sizes(whole, self.sizes, -1)
        self.pending = dict(enumerate(parts[1:], 1))
        return parts[0]


class _Other(nn.Module):
    def __init__(self, first: _First, index: int) -> None:
        super().__init__()
        self._first = [first]  # in a list, so that torch does not register it as a submodule
        self._index = index

    def forward(self, _x: torch.Tensor) -> torch.Tensor:
        return self._first[0].pending.pop(self._index)


def fuse_projections(model: PreTrainedModel) -> int:
    """Fuse projections in place; return the number of groups."""
    groups = 0
    owners: list[Any] = list(model.modules())
    for owner in owners:
        for names in _TOGETHER:
            linears = [getattr(owner, name, None) for name in names]
            plain = [linear for linear in linears if type(linear) is nn.Linear]
            if len(plain) != len(names) or len({linear.bias is None for linear in plain}) != 1:
                continue
            first = _First(plain)
            setattr(owner, names[0], first)
            for index, name in enumerate(names[1:], 1):
                setattr(owner, name, _Other(first, index))
            groups += 1
    return groups
