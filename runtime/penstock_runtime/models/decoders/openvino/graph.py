"""A blueprint as an OpenVINO model over the paged cache: what its paged-attention transformation would leave.

Every family that `extract_parts` reads becomes the same graph, so no exporter has to know the families; and attention is
OpenVINO's own operator, written where the transformation would write it. Its 28 inputs are those of
`src/core/src/op/paged_attention.cpp` of the release that pyproject.toml pins.
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
"""The only size of block that the CPU plugin's attention has."""
PRECISIONS = {torch.float32: ov.Type.f32, torch.bfloat16: ov.Type.bf16}
"""What the plugin computes in, and keeps keys and values in, by the model's dtype."""
INPUTS = {
    "ids": np.int64,
    "positions": np.int64,
    "picked": np.int64,
    "past_lens": np.int32,
    "subsequence_begins": np.int32,
    "block_indices": np.int32,
    "block_indices_begins": np.int32,
}
"""Of one dimension; `max_context_len` and the caches follow."""

Node = Any
"""openvino's nodes and outputs are untyped."""


def build(blueprint: ModelParts, heads: HeadShape) -> ov.Model:
    """Return the model: `INPUTS`, `max_context_len`, `key_cache.n` and `value_cache.n`; logits of `picked` come out.

    A bfloat16 model is written in float32 as well, but for weights, keys and values: the plugin's patterns know that, and
    its hint is what makes it compute in bfloat16. The logits come out in float32.

    Raises:
        UnknownFamily: the operator has no such attention, or no such activation.
    """
    return _Writer(heads, PRECISIONS[blueprint.embedding.dtype]).model(blueprint)


class _Writer:
    def __init__(self, heads: HeadShape, precision: ov.Type) -> None:
        self._heads = heads
        self._precision = precision
        self._inputs = {name: _input(name, [-1], kind) for name, kind in INPUTS.items()}
        self._inputs["max_context_len"] = _input("max_context_len", [], np.int32)
        self._angles: dict[str, tuple[Node, Node]] = {}

    def model(self, blueprint: ModelParts) -> ov.Model:
        x = self._embedded(blueprint)
        for name, tables in blueprint.ropes.items():
            self._angles[name] = (self._rows(tables[0]), self._rows(tables[1]))
        for index, layer in enumerate(blueprint.layers):
            x = ops.add(x, self._attention(layer, x, index))
            x = ops.add(x, self._feed(layer, x))
        x = ops.gather(x, self._inputs["picked"], _axis(0))
        head = Linear(blueprint.head.weight.float(), blueprint.head.bias)
        logits = _linear(head, _norm(blueprint.norm, x))
        if blueprint.softcap:
            cap = np.float32(blueprint.softcap)
            logits = ops.multiply(ops.tanh(ops.divide(logits, cap)), cap)
        return ov.Model([ops.result(logits)], list(self._inputs.values()), "penstock")

    def _embedded(self, blueprint: ModelParts) -> Node:
        x = _wide(ops.gather(_kept(blueprint.embedding), self._inputs["ids"], _axis(0)))
        if blueprint.embedding_scale != 1.0:
            x = ops.multiply(x, np.float32(blueprint.embedding_scale))
        if blueprint.positions is not None:
            learned = ops.gather(
                _constant(blueprint.positions), self._inputs["positions"], _axis(0)
            )
            x = ops.add(x, learned)
        return ops.unsqueeze(x, _axis(1))  # [T, 1, hidden], as the plugin's patterns know it

    def _rows(self, table: torch.Tensor) -> Node:
        """The rows of a [positions, size / 2] table at each token's position, as [T, 1, 1, size]."""
        whole = _constant(torch.cat([table, table], dim=1))
        rows = ops.gather(whole, self._inputs["positions"], _axis(0))
        return ops.unsqueeze(rows, np.array([1, 2]))

    # -- a layer

    def _attention(self, layer: Layer, x: Node, index: int) -> Node:
        heads = self._heads
        if layer.rule.softcap is not None:
            raise UnsupportedArchitecture("OpenVINO's paged attention has no soft cap of scores")
        merged = _linear(layer.qkv, _norm(layer.attention_norm, x))
        sizes = np.array([heads.query, heads.kv, heads.kv]) * heads.size
        query, key, value = ops.variadic_split(merged, _axis(2), sizes).outputs()
        query = self._placed(query, heads.query, layer, layer.query_norm)
        key = self._placed(key, heads.kv, layer, layer.key_norm)
        flat = [
            ops.reshape(one, np.array([0, -1]), special_zero=True) for one in (query, key, value)
        ]
        out = ops.unsqueeze(self._paged(flat, layer, index), _axis(1))
        return _after(layer.after_attention, _linear(layer.out, out))

    def _placed(self, x: Node, count: int, layer: Layer, norm: torch.Tensor | None) -> Node:
        """Norm a query or key and turn it by its position: [T, 1, count * size] in, [T, count, size] out."""
        size = self._heads.size
        x = ops.reshape(x, np.array([0, 0, count, size]), special_zero=True)
        if norm is not None:
            x = _norm(NormWeights(norm, None, layer.attention_norm.eps, centred=False), x)
        if layer.rope is None:
            return x
        cosine, sine = self._angles[layer.rope]
        x = ops.transpose(x, np.array([0, 2, 1, 3]))
        low, high = ops.variadic_split(x, _axis(3), np.array([size // 2, size // 2])).outputs()
        turned = ops.concat([ops.multiply(high, np.float32(-1.0)), low], axis=-1)
        x = ops.add(ops.multiply(x, cosine), ops.multiply(turned, sine))
        return ops.transpose(x, np.array([0, 2, 1, 3]))

    def _paged(self, flat: list[Node], layer: Layer, index: int) -> Node:
        heads, given = self._heads, self._inputs
        shape = [-1, heads.kv, BLOCK_TOKENS, heads.size]
        kept = self._precision
        caches = [_input(f"{kind}_cache.{index}", shape, kept) for kind in ("key", "value")]
        given |= {cache.get_friendly_name(): cache for cache in caches}
        none, nothing, zero = _empty(np.int32), _empty(np.float32), ops.constant(0, np.int32)
        scale = ops.constant(layer.rule.scaling, np.float32)
        window = ops.constant(layer.rule.window or 0, np.int32)
        where = [given[name] for name in list(INPUTS)[3:]]
        inputs = [
            *(*flat, *caches, *where),
            *(scale, window, nothing, given["max_context_len"]),  # nothing: slopes of ALiBi
            none,  # aggregation of scores
            *(none, none, nothing),  # rotation of keys in the cache
            *(nothing, zero, zero),  # sparse prefill
            ops.constant(np.zeros((0, 0, 0, 0), np.float32)),  # sinks
            *(zero, none, none, none),  # eviction by likeness
            none,  # token types
            *(_empty(np.uint8), none),  # trees of drafts
        ]
        paged = PagedAttention([_output(node) for node in inputs])
        for kind in ("k", "v"):
            paged.get_rt_info()[f"num_{kind}_heads"] = heads.kv
            paged.get_rt_info()[f"{kind}_head_size"] = heads.size
        return paged.output(0)

    def _feed(self, layer: Layer, x: Node) -> Node:
        activate = _ACTIVATIONS.get(layer.activation)
        if activate is None:
            raise UnsupportedArchitecture(
                f"activation '{layer.activation}' is not written for OpenVINO"
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
    """Float32 in and out, and between them the dtype of the weight."""
    weight = _kept(linear.weight)
    fed = x if weight.get_element_type() == ov.Type.f32 else ops.convert(x, "bf16")
    out = ops.matmul(fed, weight, transpose_a=False, transpose_b=True)
    if linear.bias is not None:
        out = ops.add(out, _kept(linear.bias.to(linear.weight.dtype)))
    return _wide(out)


def _norm(norm: NormWeights, x: Node) -> Node:
    """As transformers writes them: the plugin knows the pattern."""
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


def shared(held: torch.Tensor) -> ov.Tensor:
    """Return `held`, of either dtype and contiguous, as OpenVINO's tensor over the same memory, which must live as long."""
    if held.dtype == torch.bfloat16:  # numpy has none: its bits go as integers
        return ov.Tensor(held.view(torch.uint16).numpy(), held.shape, ov.Type.bf16)
    return ov.Tensor(held.numpy(), shared_memory=True)


def _input(name: str, shape: list[int], kind: type | ov.Type) -> Node:
    made = ops.parameter(shape, kind, name)
    made.output(0).set_names({name})
    return made


def _output(node: Node) -> ov.Output:
    return node if isinstance(node, ov.Output) else node.output(0)


def _kept(tensor: torch.Tensor) -> Node:
    """`tensor` in its own dtype: the plugin keeps what it is given beside what it packs of it."""
    return ops.constant(shared(tensor.detach().contiguous()), shared_memory=False)


def _wide(node: Node) -> Node:
    return node if node.get_element_type() == ov.Type.f32 else ops.convert(node, "f32")


def _constant(tensor: torch.Tensor) -> Node:
    return ops.constant(tensor.detach().float().contiguous().numpy())


def _empty(kind: type) -> Node:
    return ops.constant(np.zeros(0, kind))


def _axis(at: int) -> Node:
    return ops.constant(np.array([at], np.int32)) if at != 0 else ops.constant(at, np.int32)
