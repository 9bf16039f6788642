"""`PackedBody`: an encoder over packed rows, without padding.

Rows are sorted by length. Linear layers and norms run over one list of all tokens; attention runs once per group of
rows of equal length.
"""

from collections.abc import Sequence
from itertools import groupby

import torch
from torch.nn import functional

from penstock_runtime.models.device.int8_linear import Int8Chooser
from penstock_runtime.models.device.prepacked_linear import (
    ONE_DNN_ACTIVATIONS,
    Activation,
    Chooser,
    Use,
    merged,
)
from penstock_runtime.models.encoders.bert_layers import EncoderParts, LayerParts
from penstock_runtime.models.encoders.directory import Pooling

TOKEN_STEP = 16
"""Multiple to which the number of tokens is padded: oneDNN compiles a kernel per size, and caches about a thousand."""

LengthGroups = list[tuple[int, int]]
"""Groups of consecutive rows of equal length: number of rows, and tokens per row."""


def group_lengths(lengths: Sequence[int]) -> LengthGroups:
    """Return the groups of consecutive equal lengths."""
    return [(len(list(rows)), length) for length, rows in groupby(lengths)]


class LayerNorm:
    """A layer norm by its weights."""

    def __init__(self, norm: torch.nn.LayerNorm) -> None:
        self._shape = tuple(int(size) for size in norm.normalized_shape)
        self._weight, self._bias, self._eps = norm.weight.detach(), norm.bias.detach(), norm.eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return x, normalized over its last axis."""
        return functional.layer_norm(x, self._shape, self._weight, self._bias, self._eps)


class PackedLayer:
    """One layer, with query, key and value as one matrix product."""

    def __init__(self, parts: LayerParts, heads: int, chooser: Chooser) -> None:
        self._heads = heads
        self._qkv = chooser.affine(*merged(*parts.attention), Use.PLAIN)
        self._out = chooser.affine(*merged(parts.attention_out), Use.ADDED)
        self._up = chooser.affine(*merged(parts.up), Use.ACTIVATED)
        self._down = chooser.affine(*merged(parts.down), Use.ADDED)
        self._attention_norm, self._norm = LayerNorm(parts.attention_norm), LayerNorm(parts.norm)

    def __call__(self, x: torch.Tensor, groups: LengthGroups) -> torch.Tensor:
        """Return the next hidden states (tokens, width)."""
        context = self._attend(self._qkv(x), groups)
        x = self._attention_norm(self._out.added(context, x))
        return self._norm(self._down.added(self._up.activated(x), x))

    def _attend(self, qkv: torch.Tensor, groups: LengthGroups) -> torch.Tensor:
        context = qkv.new_zeros(qkv.shape[0], qkv.shape[1] // 3)
        start = 0
        for rows, length in groups:
            stop = start + rows * length
            query, key, value = (
                qkv[start:stop].view(rows, length, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
            )
            attended = functional.scaled_dot_product_attention(query, key, value)
            context[start:stop].view(rows, length, self._heads, -1).copy_(attended.transpose(1, 2))
            start = stop
        return context


class PackedBody:
    """Computes hidden states from token ids."""

    def __init__(self, parts: EncoderParts, *, in_int8: bool = False) -> None:
        self._words, self._positions = parts.words, parts.positions
        self._norm = LayerNorm(parts.norm)
        chooser = _chooser(parts.activation, in_int8=in_int8)
        self._layers = [PackedLayer(layer, parts.heads, chooser) for layer in parts.layers]

    def __call__(self, ids: torch.Tensor, groups: LengthGroups) -> torch.Tensor:
        """Return hidden states (tokens, width) of `ids` (tokens), whose rows `groups` describes."""
        tokens = ids.shape[0]
        places = torch.cat([torch.arange(length).repeat(rows) for rows, length in groups])
        missing = -tokens % TOKEN_STEP
        if missing:
            ids, places = (functional.pad(tensor, (0, missing)) for tensor in (ids, places))
        x = self._norm(self._words[ids] + self._positions[places])
        for layer in self._layers:
            x = layer(x, groups)
        return x[:tokens]


def pooled(hidden: torch.Tensor, groups: LengthGroups, pooling: Pooling) -> torch.Tensor:
    """Return one vector per row (rows, width)."""
    vectors, start = [], 0
    for rows, length in groups:
        stop = start + rows * length
        vectors.append(_pool(hidden[start:stop].view(rows, length, -1), pooling))
        start = stop
    return torch.cat(vectors)


def _pool(hidden: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    match pooling:
        case Pooling.MEAN:
            return hidden.mean(1)
        case Pooling.FIRST:
            return hidden[:, 0]
        case Pooling.MAX:
            return hidden.amax(1)


def _chooser(activation: str, *, in_int8: bool) -> Chooser:
    act = _activation(activation)
    return Int8Chooser(act, None) if in_int8 else Chooser(act, ONE_DNN_ACTIVATIONS[activation])


def _activation(name: str) -> Activation:
    if name == "relu":
        return functional.relu
    approximate = "tanh" if name == "gelu_new" else "none"

    def gelu(x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x, approximate=approximate)

    return gelu
