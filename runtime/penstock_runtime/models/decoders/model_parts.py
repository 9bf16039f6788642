"""`ModelParts`: the weights and parameters of a transformers model, layer by layer, for graph-building backends.

Supports architectures whose layers are attention and feed-forward with norms: Llama, Mistral, Qwen2, Qwen3, Gemma 1 to
3 (text) and GPT-2. Each is read by attribute names; every load verifies the result against the model (`check`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from penstock_runtime.models.decoders.attention.base import LayerRule

_STATIC_ROPES = {"default", "linear", "llama3", "yarn"}
"""Rope types whose angles depend on the position only, so that they can be precomputed."""


class UnsupportedArchitecture(Exception):
    """The architecture is not supported; the message has the reason."""


@dataclass(frozen=True, slots=True)
class NormWeights:
    """Weights of an RMS norm, or of a layer norm if `centred`."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    eps: float
    centred: bool


@dataclass(frozen=True, slots=True)
class Linear:
    """Weights of a linear layer; `weight` is [outputs, inputs]."""

    weight: torch.Tensor
    bias: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Layer:
    """x += [after](out(attend(in(x)))); x += [after](down(activate(up(in(x)))))."""

    attention_norm: NormWeights
    qkv: Linear
    """Queries, keys and values, concatenated by output."""
    query_norm: torch.Tensor | None
    key_norm: torch.Tensor | None
    rope: str | None
    """Key into `ModelParts.ropes`."""
    rule: LayerRule
    out: Linear
    after_attention: NormWeights | None
    feed_norm: NormWeights
    up: Linear
    """With a gate: gate and up, concatenated by output."""
    gated: bool
    activation: str
    """Name of the activation in transformers."""
    down: Linear
    after_feed: NormWeights | None


@dataclass(frozen=True, slots=True)
class ModelParts:
    """Parts of a whole model."""

    embedding: torch.Tensor
    embedding_scale: float
    positions: torch.Tensor | None
    """Learned position embeddings, [positions, hidden]."""
    ropes: dict[str, tuple[torch.Tensor, torch.Tensor]]
    """Cosines and sines, [positions, size / 2], in float32 for every model type."""
    layers: list[Layer]
    norm: NormWeights
    head: Linear
    softcap: float | None


def extract_parts(model: PreTrainedModel, positions: int) -> ModelParts:
    """Return the parts of `model`, with rope tables for `positions`.

    Raises:
        UnsupportedArchitecture: the architecture or one of its options is not supported.
    """
    reader = _READERS.get(model.config.model_type)
    if reader is None:
        raise UnsupportedArchitecture(f"model type '{model.config.model_type}' is not supported")
    try:
        return reader(model, positions)
    except AttributeError as error:
        raise UnsupportedArchitecture(
            f"'{model.config.model_type}' lacks an expected attribute: {error}"
        ) from error


def _norm(module: Any) -> NormWeights:
    centred = isinstance(module, torch.nn.LayerNorm)
    weight = module.weight.detach()
    if type(module).__name__.startswith("Gemma"):
        weight = 1.0 + weight.float()
    eps = getattr(module, "variance_epsilon", None) or module.eps
    bias = module.bias.detach() if centred and module.bias is not None else None
    return NormWeights(weight, bias, eps, centred)


def _concatenated(*linears: Any) -> Linear:
    biases = [linear.bias for linear in linears]
    weight = torch.cat([linear.weight.detach() for linear in linears])
    return Linear(weight, None if biases[0] is None else torch.cat([b.detach() for b in biases]))


def _rope_tables(model: Any, positions: int) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    parameters = model.config.rope_parameters
    by_type = parameters if "rope_type" not in parameters else {"": parameters}
    tables, like = {}, torch.empty(0, dtype=torch.float32)
    for name, rope in by_type.items():
        if name and name not in model.config.layer_types:
            continue
        if rope["rope_type"] not in _STATIC_ROPES or rope.get("partial_rotary_factor", 1.0) != 1.0:
            raise UnsupportedArchitecture(f"rope type '{rope['rope_type']}' is not supported")
        at = torch.arange(positions)[None]
        cosine, sine = model.model.rotary_emb(like, at, *filter(None, [name]))
        half = cosine.shape[-1] // 2
        tables[name] = (cosine[0, :, :half].contiguous(), sine[0, :, :half].contiguous())
    return tables


def _rounded(number: float, dtype: torch.dtype) -> float:
    """Round to `dtype`: Gemma's scale of embeddings has the type of the model, as in training."""
    return torch.tensor(number, dtype=dtype).item()


def _llama_like(model: Any, positions: int) -> ModelParts:
    ropes, config = _rope_tables(model, positions), model.config
    embedding = model.model.embed_tokens
    scale = float(getattr(embedding, "scalar_embed_scale", 1.0))
    return ModelParts(
        embedding=embedding.weight.detach(),
        embedding_scale=_rounded(scale, embedding.weight.dtype),
        positions=None,
        ropes=ropes,
        layers=[_llama_layer(layer, config, ropes) for layer in model.model.layers],
        norm=_norm(model.model.norm),
        head=_concatenated(model.lm_head),
        softcap=getattr(config, "final_logit_softcapping", None),
    )


def _llama_layer(layer: Any, config: Any, ropes: dict[str, Any]) -> Layer:
    attention, feed = layer.self_attn, layer.mlp
    sandwiched = hasattr(layer, "pre_feedforward_layernorm")
    window = getattr(attention, "sliding_window", None)
    if config.model_type == "mistral":
        window = config.sliding_window
    return Layer(
        attention_norm=_norm(layer.input_layernorm),
        qkv=_concatenated(attention.q_proj, attention.k_proj, attention.v_proj),
        query_norm=_norm(attention.q_norm).weight if hasattr(attention, "q_norm") else None,
        key_norm=_norm(attention.k_norm).weight if hasattr(attention, "k_norm") else None,
        rope="" if "" in ropes else attention.layer_type,
        rule=LayerRule(attention.scaling, getattr(config, "attn_logit_softcapping", None), window),
        out=_concatenated(attention.o_proj),
        after_attention=_norm(layer.post_attention_layernorm) if sandwiched else None,
        feed_norm=_norm(
            layer.pre_feedforward_layernorm if sandwiched else layer.post_attention_layernorm
        ),
        up=_concatenated(feed.gate_proj, feed.up_proj),
        gated=True,
        activation=getattr(config, "hidden_activation", None) or config.hidden_act,
        down=_concatenated(feed.down_proj),
        after_feed=_norm(layer.post_feedforward_layernorm) if sandwiched else None,
    )


def _transposed(module: Any) -> Linear:
    """Return the weights of GPT-2's Conv1D, which are [inputs, outputs]."""
    return Linear(module.weight.detach().t().contiguous(), module.bias.detach())


def _gpt2(model: Any, positions: int) -> ModelParts:
    body, config = model.transformer, model.config
    return ModelParts(
        embedding=body.wte.weight.detach(),
        embedding_scale=1.0,
        positions=body.wpe.weight.detach()[:positions],
        ropes={},
        layers=[
            Layer(
                attention_norm=_norm(layer.ln_1),
                qkv=_transposed(layer.attn.c_attn),
                query_norm=None,
                key_norm=None,
                rope=None,
                rule=LayerRule(layer.attn.scaling),
                out=_transposed(layer.attn.c_proj),
                after_attention=None,
                feed_norm=_norm(layer.ln_2),
                up=_transposed(layer.mlp.c_fc),
                gated=False,
                activation=config.activation_function,
                down=_transposed(layer.mlp.c_proj),
                after_feed=None,
            )
            for layer in body.h
        ],
        norm=_norm(body.ln_f),
        head=_concatenated(model.lm_head),
        softcap=None,
    )


_READERS: dict[str, Callable[[Any, int], ModelParts]] = {
    "gpt2": _gpt2,
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"), _llama_like
    ),
}
