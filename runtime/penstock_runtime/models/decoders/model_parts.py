"""A transformers model taken apart: merged weights and rules, layer by layer, for decoders of our own.

Knows the families whose layers are an attention and a feed-forward behind norms: Llama, Mistral, Qwen2,
Qwen3, Gemma 1 to 3 (text) and GPT-2. A family is a reading of attribute names, nothing more; that the
reading is right is checked at every load against the model itself (`check`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from penstock_runtime.models.decoders.attention.base import LayerRule

_STATIC_ROPES = {"default", "linear", "llama3", "yarn"}
"""Whose angles depend on the position alone, so that a table of them holds."""


class UnsupportedArchitecture(Exception):
    """This model cannot be taken apart; the message says what stands in the way."""


@dataclass(frozen=True, slots=True)
class NormWeights:
    """RMS norm, or layer norm where `centred`."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    eps: float
    centred: bool


@dataclass(frozen=True, slots=True)
class Linear:
    """`weight` is [outputs, inputs]."""

    weight: torch.Tensor
    bias: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Layer:
    """x += [after](out(attend(in(x)))); x += [after](down(activate(up(in(x)))))."""

    attention_norm: NormWeights
    qkv: Linear
    """Queries, keys, values, one below the other."""
    query_norm: torch.Tensor | None
    key_norm: torch.Tensor | None
    rope: str | None
    """Key into `ModelParts.ropes`."""
    rule: LayerRule
    out: Linear
    after_attention: NormWeights | None
    feed_norm: NormWeights
    up: Linear
    """With a gate: gate, then up, one below the other."""
    gated: bool
    activation: str
    """transformers' name."""
    down: Linear
    after_feed: NormWeights | None


@dataclass(frozen=True, slots=True)
class ModelParts:
    """A whole model."""

    embedding: torch.Tensor
    embedding_scale: float
    positions: torch.Tensor | None
    """Learned ones, [positions, hidden]."""
    ropes: dict[str, tuple[torch.Tensor, torch.Tensor]]
    """Cosines and sines, [positions, size / 2], in float32 whatever the model's type."""
    layers: list[Layer]
    norm: NormWeights
    head: Linear
    softcap: float | None


def extract_parts(model: PreTrainedModel, positions: int) -> ModelParts:
    """Return the parts of `model`, with tables for so many positions.

    Raises:
        UnknownFamily: it is none of those above, or has an option that they are not read with.
    """
    reader = _READERS.get(model.config.model_type)
    if reader is None:
        raise UnsupportedArchitecture(f"model type '{model.config.model_type}' is not read")
    try:
        return reader(model, positions)
    except AttributeError as error:
        raise UnsupportedArchitecture(
            f"'{model.config.model_type}' is not as it was: {error}"
        ) from error


def _norm(module: Any) -> NormWeights:
    centred = isinstance(module, torch.nn.LayerNorm)
    weight = module.weight.detach()
    if type(module).__name__.startswith("Gemma"):
        weight = 1.0 + weight.float()
    eps = getattr(module, "variance_epsilon", None) or module.eps
    bias = module.bias.detach() if centred and module.bias is not None else None
    return NormWeights(weight, bias, eps, centred)


def _merged(*linears: Any) -> Linear:
    biases = [linear.bias for linear in linears]
    weight = torch.cat([linear.weight.detach() for linear in linears])
    return Linear(weight, None if biases[0] is None else torch.cat([b.detach() for b in biases]))


def _rope_tables(model: Any, positions: int) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    parameters = model.config.rope_parameters
    by_type = parameters if "rope_type" not in parameters else {"": parameters}
    tables, wanted = {}, torch.empty(0, dtype=torch.float32)
    for name, rope in by_type.items():
        if name and name not in model.config.layer_types:
            continue
        if rope["rope_type"] not in _STATIC_ROPES or rope.get("partial_rotary_factor", 1.0) != 1.0:
            raise UnsupportedArchitecture(f"rope of type '{rope['rope_type']}' is not read")
        at = torch.arange(positions)[None]
        cosine, sine = model.model.rotary_emb(wanted, at, *filter(None, [name]))
        half = cosine.shape[-1] // 2
        tables[name] = (cosine[0, :, :half].contiguous(), sine[0, :, :half].contiguous())
    return tables


def _rounded(number: float, dtype: torch.dtype) -> float:
    """Gemma's scale of embeddings is of the model's type, and was in training."""
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
        head=_merged(model.lm_head),
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
        qkv=_merged(attention.q_proj, attention.k_proj, attention.v_proj),
        query_norm=_norm(attention.q_norm).weight if hasattr(attention, "q_norm") else None,
        key_norm=_norm(attention.k_norm).weight if hasattr(attention, "k_norm") else None,
        rope="" if "" in ropes else attention.layer_type,
        rule=LayerRule(attention.scaling, getattr(config, "attn_logit_softcapping", None), window),
        out=_merged(attention.o_proj),
        after_attention=_norm(layer.post_attention_layernorm) if sandwiched else None,
        feed_norm=_norm(
            layer.pre_feedforward_layernorm if sandwiched else layer.post_attention_layernorm
        ),
        up=_merged(feed.gate_proj, feed.up_proj),
        gated=True,
        activation=getattr(config, "hidden_activation", None) or config.hidden_act,
        down=_merged(feed.down_proj),
        after_feed=_norm(layer.post_feedforward_layernorm) if sandwiched else None,
    )


def _turned(module: Any) -> Linear:
    """GPT-2's Conv1D keeps [inputs, outputs]."""
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
                qkv=_turned(layer.attn.c_attn),
                query_norm=None,
                key_norm=None,
                rope=None,
                rule=LayerRule(layer.attn.scaling),
                out=_turned(layer.attn.c_proj),
                after_attention=None,
                feed_norm=_norm(layer.ln_2),
                up=_turned(layer.mlp.c_fc),
                gated=False,
                activation=config.activation_function,
                down=_turned(layer.mlp.c_proj),
                after_feed=None,
            )
            for layer in body.h
        ],
        norm=_norm(body.ln_f),
        head=_merged(model.lm_head),
        softcap=None,
    )


_READERS: dict[str, Callable[[Any, int], ModelParts]] = {
    "gpt2": _gpt2,
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"), _llama_like
    ),
}
