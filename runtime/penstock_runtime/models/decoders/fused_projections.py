"""Fewer, larger kernels on transformers' own modules: projections that read the same input become one.

`q_proj(x)`, `k_proj(x)`, `v_proj(x)` are called one after the other by every family that has them, as are
`gate_proj(x)` and `up_proj(x)`. The first computes them all, the others hand out what is left.
"""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

_TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class _First(nn.Module):
    """One linear layer for several; returns the first's outputs and keeps the others' until they are asked for."""

    def __init__(self, linears: list[nn.Linear]) -> None:
        super().__init__()
        self.sizes = [linear.out_features for linear in linears]
        weight = torch.cat([linear.weight.detach() for linear in linears])
        self.weight = nn.Parameter(weight, requires_grad=False)
        biases: list[torch.Tensor] = [one.bias for one in linears if one.bias is not None]
        self.bias = nn.Parameter(torch.cat(biases), requires_grad=False) if biases else None
        self.left: dict[int, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = nn.functional.linear(x, self.weight, self.bias)
        parts = torch.split_with_sizes(whole, self.sizes, -1)
        self.left = dict(enumerate(parts[1:], 1))
        return parts[0]


class _Other(nn.Module):
    def __init__(self, first: _First, index: int) -> None:
        super().__init__()
        self._first = [first]  # in a list, or it would be a child with parameters of its own
        self._index = index

    def forward(self, _x: torch.Tensor) -> torch.Tensor:
        return self._first[0].left.pop(self._index)


def fuse_projections(model: PreTrainedModel) -> int:
    """Merge in place what is read together; return how many groups there were."""
    merged = 0
    owners: list[Any] = list(model.modules())
    for owner in owners:
        for names in _TOGETHER:
            linears = [getattr(owner, name, None) for name in names]
            plain = [one for one in linears if type(one) is nn.Linear]
            if len(plain) != len(names) or len({one.bias is None for one in plain}) != 1:
                continue
            first = _First(plain)
            setattr(owner, names[0], first)
            for index, name in enumerate(names[1:], 1):
                setattr(owner, name, _Other(first, index))
            merged += 1
    return merged
