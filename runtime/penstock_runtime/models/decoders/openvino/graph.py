"""`build`: converts `ModelParts` to an OpenVINO model over the paged cache, as OpenVINO's own transformation would.

All architectures that `extract_parts` supports become the same graph, so no exporter is needed. Attention is OpenVINO's
own operator; its 28 inputs are those of `src/core/src/op/paged_attention.cpp` of the release that pyproject.toml pins.
"""

from typing import Any

import numpy as np
import openvino as ov
import torch
from openvino import opset15 as ops
from openvino.op import _PagedAttentionExtension as PagedAttention

from penstock_runtime.models.decoders.attention.base import HeadShape
from penstock_runtime.models.decoders.model_parts import (
    Layer,
    Linear,
    ModelParts,
    NormWeights,
    UnsupportedArchitecture,
)

BLOCK_TOKENS = 32
"""The only block size that the CPU plugin's attention supports."""
PRECISIONS = {torch.float32: ov.Type.f32, torch.bfloat16: ov.Type.bf16}
"""Precision of computation and of the KV cache, by the model's dtype."""
INPUTS = {
    "ids": np.int64,
    "positions": np.int64,
    "picked": np.int64,
    "past_lens": np.int32,
    "subsequence_begins": np.int32,
    "block_indices": np.int32,
    "block_indices_begins": np.int32,
}
"""One-dimensional inputs; `max_context_len` and the caches follow."""

Node = Any
"""A node or output of openvino, which are untyped."""


def build(parts: ModelParts, heads: HeadShape) -> ov.Model:
    """Return the model, which computes the logits of `picked` in float32.

    Its inputs are `INPUTS`, `max_context_len`, `key_cache.n` and `value_cache.n`. A bfloat16 model is also expressed
    in float32, except its weights, keys and values: the plugin's patterns require it, and the precision hint makes the
    plugin compute in bfloat16.

    Raises:
        UnsupportedArchitecture: OpenVINO has no such attention or activation.
    """
    return _Writer(heads, PRECISIONS[parts.embedding.dtype]).model(parts)


class _Writer:
    def __init__(self, heads: HeadShape, precision: ov.Type) -> None:
        self._heads = heads
        self._precision = precision
        self._inputs = {name: _input(name, [-1], kind) for name, kind in INPUTS.items()}
        self._inputs["max_context_len"] = _input("max_context_len", [], np.int32)
        self._angles: dict[str, tuple[Node, Node]] = {}

    def model(self, parts: ModelParts) -> ov.Model:
        x = self._embedded(parts)
        for name, tables in parts.ropes.items():
            self._angles[name] = (self._rows(tables[0]), self._rows(tables[1]))
        for index, layer in enumerate(parts.layers):
            x = ops.add(x, self._attention(layer, x, index))
            x = ops.add(x, self._feed(layer, x))
        x = ops.gather(x, self._inputs["picked"], _axis(0))
        head = Linear(parts.head.weight.float(), parts.head.bias)
        logits = _linear(head, _norm(parts.norm, x))
        if parts.softcap:
            cap = np.float32(parts.softcap)
            logits = ops.multiply(ops.tanh(ops.divide(logits, cap)), cap)
        return ov.Model([ops.result(logits)], list(self._inputs.values()), "penstock")

    def _embedded(self, parts: ModelParts) -> Node:
        x = _wide(ops.gather(_stored(parts.embedding), self._inputs["ids"], _axis(0)))
        if parts.embedding_scale != 1.0:
            x = ops.multiply(x, np.float32(parts.embedding_scale))
        if parts.positions is not None:
            learned = ops.gather(_constant(parts.positions), self._inputs["positions"], _axis(0))
            x = ops.add(x, learned)
        return ops.unsqueeze(x, _axis(1))  # [T, 1, hidden], as the plugin's patterns require

    def _rows(self, table: torch.Tensor) -> Node:
        """Return the rows of a [positions, size / 2] table at the tokens' positions, as [T, 1, 1, size]."""
        whole = _constant(torch.cat([table, table], dim=1))
        rows = ops.gather(whole, self._inputs["positions"], _axis(0))
        return ops.unsqueeze(rows, np.array([1, 2]))

    # -- a layer

    def _attention(self, layer: Layer, x: Node, index: int) -> Node:
        heads = self._heads
        if layer.rule.softcap is not None:
            raise UnsupportedArchitecture(
                "OpenVINO's paged attention does not support a soft cap of scores"
            )
        merged = _linear(layer.qkv, _norm(layer.attention_norm, x))
        sizes = np.array([heads.query, heads.kv, heads.kv]) * heads.size
        query, key, value = ops.variadic_split(merged, _axis(2), sizes).outputs()
        query = self._rotated(query, heads.query, layer, layer.query_norm)
        key = self._rotated(key, heads.kv, layer, layer.key_norm)
        flat = [
            ops.reshape(part, np.array([0, -1]), special_zero=True) for part in (query, key, value)
        ]
        out = ops.unsqueeze(self._paged(flat, layer, index), _axis(1))
        return _after(layer.after_attention, _linear(layer.out, out))

    def _rotated(self, x: Node, count: int, layer: Layer, norm: torch.Tensor | None) -> Node:
        """Apply norm and rope to queries or keys: [T, 1, count * size] in, [T, count, size] out."""
        size = self._heads.size
        x = ops.reshape(x, np.array([0, 0, count, size]), special_zero=True)
        if norm is not None:
            x = _norm(NormWeights(norm, None, layer.attention_norm.eps, centred=False), x)
        if layer.rope is None:
            return x
        cosine, sine = self._angles[layer.rope]
        x = ops.transpose(x, np.array([0, 2, 1, 3]))
        low, high = ops.variadic_split(x, _axis(3), np.array([size // 2, size // 2])).outputs()
        half_turned = ops.concat([ops.multiply(high, np.float32(-1.0)), low], axis=-1)
        x = ops.add(ops.multiply(x, cosine), ops.multiply(half_turned, sine))
        return ops.transpose(x, np.array([0, 2, 1, 3]))

    def _paged(self, flat: list[Node], layer: Layer, index: int) -> Node:
        heads, inputs = self._heads, self._inputs
        shape = [-1, heads.kv, BLOCK_TOKENS, heads.size]
        caches = [
            _input(f"{kind}_cache.{index}", shape, self._precision) for kind in ("key", "value")
        ]
        inputs |= {cache.get_friendly_name(): cache for cache in caches}
        none, nothing, zero = _empty(np.int32), _empty(np.float32), ops.constant(0, np.int32)
        scale = ops.constant(layer.rule.scaling, np.float32)
        window = ops.constant(layer.rule.window or 0, np.int32)
        where = [inputs[name] for name in list(INPUTS)[3:]]
        operands = [
            *(*flat, *caches, *where),
            *(scale, window, nothing, inputs["max_context_len"]),  # nothing: ALiBi slopes
            none,  # score aggregation
            *(none, none, nothing),  # rotation of cached keys
            *(nothing, zero, zero),  # sparse prefill
            ops.constant(np.zeros((0, 0, 0, 0), np.float32)),  # sinks
            *(zero, none, none, none),  # cache eviction by similarity
            none,  # token types
            *(_empty(np.uint8), none),  # draft trees of speculative decoding
        ]
        paged = PagedAttention([_output(node) for node in operands])
        for kind in ("k", "v"):
            paged.get_rt_info()[f"num_{kind}_heads"] = heads.kv
            paged.get_rt_info()[f"{kind}_head_size"] = heads.size
        return paged.output(0)

    def _feed(self, layer: Layer, x: Node) -> Node:
        activate = _ACTIVATIONS.get(layer.activation)
        if activate is None:
            raise UnsupportedArchitecture(
                f"activation '{layer.activation}' is not supported with OpenVINO"
            )
        h = _norm(layer.feed_norm, x)
        if not layer.gated:
            active = activate(_linear(layer.up, h))
        else:
            gate, up = layer.up.weight.chunk(2)
            active = ops.multiply(
                activate(_linear(Linear(gate, None), h)), _linear(Linear(up, None), h)
            )
        return _after(layer.after_feed, _linear(layer.down, active))


_ACTIVATIONS = {
    "silu": ops.swish,
    "swish": ops.swish,
    "gelu_pytorch_tanh": lambda x: ops.gelu(x, "tanh"),
    "gelu_new": lambda x: ops.gelu(x, "tanh"),
    "gelu": lambda x: ops.gelu(x, "erf"),
    "relu": ops.relu,
}


def _linear(linear: Linear, x: Node) -> Node:
    """Apply a linear layer in the dtype of its weight to float32 inputs and outputs."""
    weight = _stored(linear.weight)
    fed = x if weight.get_element_type() == ov.Type.f32 else ops.convert(x, "bf16")
    out = ops.matmul(fed, weight, transpose_a=False, transpose_b=True)
    if linear.bias is not None:
        out = ops.add(out, _stored(linear.bias.to(linear.weight.dtype)))
    return _wide(out)


def _norm(norm: NormWeights, x: Node) -> Node:
    """Apply a norm in the form of transformers, which the plugin's patterns recognize."""
    eps = np.float32(norm.eps)
    if norm.centred:
        x = ops.mvn(x, _axis(-1), normalize_variance=True, eps=float(eps), eps_mode="inside_sqrt")
        x = ops.multiply(x, _constant(norm.weight))
        return x if norm.bias is None else ops.add(x, _constant(norm.bias))
    mean = ops.reduce_mean(ops.power(x, np.float32(2.0)), _axis(-1), keep_dims=True)
    root = ops.divide(np.float32(1.0), ops.sqrt(ops.add(mean, eps)))
    return ops.multiply(_constant(norm.weight), ops.multiply(x, root))


def _after(norm: NormWeights | None, x: Node) -> Node:
    return x if norm is None else _norm(norm, x)


def shared(tensor: torch.Tensor) -> ov.Tensor:
    """Return an OpenVINO tensor over the memory of a contiguous `tensor`, which must outlive it."""
    if tensor.dtype == torch.bfloat16:  # numpy has no bfloat16: its bits are passed as integers
        return ov.Tensor(tensor.view(torch.uint16).numpy(), tensor.shape, ov.Type.bf16)
    return ov.Tensor(tensor.numpy(), shared_memory=True)


def _input(name: str, shape: list[int], kind: type | ov.Type) -> Node:
    parameter = ops.parameter(shape, kind, name)
    parameter.output(0).set_names({name})
    return parameter


def _output(node: Node) -> ov.Output:
    return node if isinstance(node, ov.Output) else node.output(0)


def _stored(tensor: torch.Tensor) -> Node:
    """Return a constant in the dtype of `tensor`; the plugin keeps it in addition to its packed copy."""
    return ops.constant(shared(tensor.detach().contiguous()), shared_memory=False)


def _wide(node: Node) -> Node:
    return node if node.get_element_type() == ov.Type.f32 else ops.convert(node, "f32")


def _constant(tensor: torch.Tensor) -> Node:
    return ops.constant(tensor.detach().float().contiguous().numpy())


def _empty(kind: type) -> Node:
    return ops.constant(np.zeros(0, kind))


def _axis(at: int) -> Node:
    return ops.constant(np.array([at], np.int32)) if at != 0 else ops.constant(at, np.int32)
