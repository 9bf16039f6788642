"""A blueprint as a list of C operations: one call a step, so that Python's share does not grow with layers."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from penstock_runtime.generation.step.attention.base import Geometry, Heads
from penstock_runtime.generation.step.blueprint import (
    Blueprint,
    Layer,
    Linear,
    Norm,
    UnknownFamily,
)
from penstock_runtime.generation.step.native.abi import (
    UNITS,
    Activation,
    Kind,
    Op,
    function,
    pointer,
)
from penstock_runtime.generation.step.native.attention import batch_of
from penstock_runtime.generation.step.packed import Packed

PANEL = 16
_FIRST_ROWS = 64
_ACTIVATIONS = {
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "gelu_new": Activation.GELU_TANH,
    "gelu": Activation.GELU_ERF,
    "relu": Activation.RELU,
}


def pack(linear: Linear) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return weight as [outputs / 16][units of inputs][16][unit] and bias, both padded with zeros to whole panels."""
    outputs, inputs = linear.weight.shape
    panels, unit = -(-outputs // PANEL), UNITS[linear.weight.dtype]
    weight = torch.zeros((panels * PANEL, inputs), dtype=linear.weight.dtype)
    weight[:outputs] = linear.weight
    packed = weight.view(panels, PANEL, inputs // unit, unit).transpose(1, 2).contiguous()
    if linear.bias is None:
        return packed, None
    bias = torch.zeros(panels * PANEL)
    bias[:outputs] = linear.bias
    return packed, bias


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Where activations lie: a name, and floats between tokens; what is to be multiplied fills a row's beginning."""

    name: str
    stride: int


class NativeDecoder:
    """A `Decoder` on the CPU; keys and values as `NativeAttention` lays them out.

    In bfloat16 what is multiplied is rounded, nothing else: sums, norms and the residual stay float32.
    """

    recordings = 0

    def __init__(
        self,
        library: ctypes.CDLL,
        blueprint: Blueprint,
        geometry: Geometry,
        caches: list[torch.Tensor],
        longest: int,
    ) -> None:
        self._dtype = geometry.dtype
        self._run = function(library, "run", self._dtype)
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        heads = self._heads = geometry.heads
        self._kept: list[torch.Tensor | None] = []
        self._ops: list[tuple[Op, _Buffer | None, _Buffer]] = []
        self._batch, self._scores = batch_of(heads, geometry.block_tokens, longest)
        self._hidden = blueprint.embedding.shape[1]
        self._vocabulary = blueprint.head.weight.shape[0]
        _refuse(blueprint, heads)
        self._write(blueprint, caches)
        self._array = (Op * len(self._ops))()
        self._buffers: dict[str, torch.Tensor] = {}
        self._logits = np.empty((0, self._vocabulary), np.float32)
        self._rows = 0
        self._room(_FIRST_ROWS)

    def forward(self, packed: Packed) -> NDArray[np.float32]:
        """As `Decoder.forward`. The logits lie in a buffer that the next call overwrites."""
        self._room(packed.tokens)
        batch = self._batch
        kept = batch.fill(packed)
        self._run(ctypes.addressof(self._array), len(self._array), ctypes.addressof(batch))
        del kept
        return self._logits[: len(packed.last)]

    # -- the list of operations

    def _write(self, blueprint: Blueprint, caches: list[torch.Tensor]) -> None:
        hidden = self._hidden
        x, h = _Buffer("x", hidden), _Buffer("h", hidden)
        self._op(
            Kind.EMBED,
            None,
            x,
            n=hidden,
            weight=self._keep_units(blueprint.embedding),
            bias=self._keep(blueprint.positions),
            scale=blueprint.embedding_scale,
        )
        for layer, cache in zip(blueprint.layers, caches, strict=True):
            self._attention(layer, cache, blueprint, x, h)
            self._feed(layer, x, h)
        picked, logits = _Buffer("picked", hidden), _Buffer("logits", _padded(self._vocabulary))
        self._op(Kind.PICK, x, picked, n=hidden, on_picks=1)
        self._norm(blueprint.norm, picked, picked, on_picks=1, as_units=1)
        self._linear(blueprint.head, picked, logits, on_picks=1)
        if blueprint.softcap:
            self._op(
                Kind.SOFTCAP, logits, logits, n=logits.stride, softcap=blueprint.softcap, on_picks=1
            )

    def _attention(
        self, layer: Layer, cache: torch.Tensor, blueprint: Blueprint, x: _Buffer, h: _Buffer
    ) -> None:
        heads = self._heads
        qkv = _Buffer("qkv", _padded((heads.query + 2 * heads.kv) * heads.size))
        attended = _Buffer("attended", heads.query * heads.size)
        cosine, sine = blueprint.ropes[layer.rope] if layer.rope is not None else (None, None)
        self._norm(layer.attention_norm, x, h, as_units=1)
        self._linear(layer.qkv, h, qkv)
        self._op(
            Kind.ATTEND,
            qkv,
            attended,
            window=layer.rule.window or 0,
            scale=layer.rule.scaling,
            softcap=layer.rule.softcap or 0.0,
            eps=layer.attention_norm.eps,
            cosine=self._keep(cosine),
            sine=self._keep(sine),
            query_norm=self._keep(layer.query_norm),
            key_norm=self._keep(layer.key_norm),
            keys=self._keep_units(cache),
            values=self._keep_units(cache[len(cache) // 2 :]),
        )
        self._added(layer.out, attended, layer.after_attention, x, h)

    def _feed(self, layer: Layer, x: _Buffer, h: _Buffer) -> None:
        inner = layer.down.weight.shape[1]
        up = _Buffer("up", layer.up.weight.shape[0])
        active = _Buffer("active", inner)
        self._norm(layer.feed_norm, x, h, as_units=1)
        self._linear(layer.up, h, up)
        self._op(
            Kind.ACTIVATE,
            up,
            active,
            n=inner,
            activation=_ACTIVATIONS[layer.activation],
            gated=int(layer.gated),
        )
        self._added(layer.down, active, layer.after_feed, x, h)

    def _added(
        self, linear: Linear, source: _Buffer, norm: Norm | None, x: _Buffer, h: _Buffer
    ) -> None:
        """X += linear(source), by way of a norm where there is one."""
        if norm is None:
            self._linear(linear, source, x, accumulate=1)
            return
        self._linear(linear, source, h)
        self._norm(norm, h, h)
        self._op(Kind.ADD, h, x, n=self._hidden)

    def _norm(self, norm: Norm, source: _Buffer, target: _Buffer, **more: Any) -> None:
        self._op(
            Kind.LAYER_NORM if norm.centred else Kind.RMS_NORM,
            source,
            target,
            n=self._hidden,
            eps=norm.eps,
            weight=self._keep(norm.weight),
            bias=self._keep(norm.bias),
            **more,
        )

    def _linear(self, linear: Linear, source: _Buffer, target: _Buffer, **more: Any) -> None:
        weight, bias = pack(linear)
        outputs, inputs = linear.weight.shape
        self._op(
            Kind.LINEAR,
            source,
            target,
            n=outputs,
            k=inputs,
            weight=self._keep_units(weight),
            bias=self._keep(bias),
            **more,
        )

    def _op(self, kind: Kind, source: _Buffer | None, target: _Buffer, **fields: Any) -> None:
        op = Op(kind=kind, out_stride=target.stride, **fields)
        if source is not None:
            op.in_stride = source.stride
        self._ops.append((op, source, target))

    def _keep(self, tensor: torch.Tensor | None) -> int | None:
        """Keep what is added or multiplied one by one, as floats."""
        self._kept.append(None if tensor is None else tensor.float().contiguous())
        return pointer(self._kept[-1])

    def _keep_units(self, tensor: torch.Tensor) -> int | None:
        self._kept.append(tensor.contiguous())
        return pointer(self._kept[-1], self._dtype)

    # -- buffers

    def _room(self, rows: int) -> None:
        """Have buffers for so many tokens; the list of operations names them anew where they grew."""
        if rows <= self._rows:
            return
        self._rows = max(rows, 2 * self._rows)
        named = {buffer for _, *pair in self._ops for buffer in pair if buffer is not None}
        self._buffers = {b.name: torch.zeros((self._rows, b.stride)) for b in named}
        self._logits = self._buffers["logits"].numpy()[:, : self._vocabulary]
        for index, (op, source, target) in enumerate(self._ops):
            op.in_ = None if source is None else self._buffers[source.name].data_ptr()
            op.out = self._buffers[target.name].data_ptr()
            self._array[index] = op


def _padded(outputs: int) -> int:
    return -(-outputs // PANEL) * PANEL


def _refuse(blueprint: Blueprint, heads: Heads) -> None:
    """Vectors are 8 floats and panels 16 outputs wide."""
    sizes = {
        "hidden size": (blueprint.embedding.shape[1], PANEL),
        "head size": (heads.size, 8),
        "feed-forward size": (blueprint.layers[0].down.weight.shape[1], PANEL),
    }
    for name, (size, multiple) in sizes.items():
        if size % multiple:
            raise UnknownFamily(f"the {name} {size} is not a multiple of {multiple}")
    unknown = {layer.activation for layer in blueprint.layers} - set(_ACTIVATIONS)
    if unknown:
        raise UnknownFamily(f"activation '{min(unknown)}' is not written in C")
