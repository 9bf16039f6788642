"""Where the parts of a BERT lie in its relatives as `transformers` builds them, by name of the class.

What is listed here can be computed packed. Everything else is served too, padded, by its own forward.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from penstock_runtime.models.device.prepacked_linear import ONE_DNN_ACTIVATIONS

Classify = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class LayerParts:
    """One layer: attention, then two linears, each with a residual and a norm behind it."""

    attention: tuple[torch.nn.Linear, torch.nn.Linear, torch.nn.Linear]
    """Query, key, value."""
    attention_out: torch.nn.Linear
    attention_norm: torch.nn.LayerNorm
    up: torch.nn.Linear
    down: torch.nn.Linear
    norm: torch.nn.LayerNorm


@dataclass(frozen=True, slots=True)
class EncoderParts:
    """A whole encoder."""

    words: torch.Tensor
    positions: torch.Tensor
    """Row 0 is the first token's, the type embedding of the first segment added in."""
    norm: torch.nn.LayerNorm
    layers: Sequence[LayerParts]
    heads: int
    activation: str
    classify: Classify | None
    """First token's hidden states (rows, width) to logits; holds nothing of the model but its last layers."""


def parts_of(model: Any) -> EncoderParts | None:
    """Return the parts of a known relative with weights that torch computes in float32, else None."""
    name = type(model).__name__
    if name.startswith(_NOT_MERELY):
        return None
    family = next((one for one in _FAMILIES if name.startswith(one)), None)
    if family is None or getattr(model.config, "is_decoder", False):
        return None
    parts = _FAMILIES[family](model)
    if parts.activation not in ONE_DNN_ACTIVATIONS:
        return None
    if getattr(model.config, "position_embedding_type", "absolute") != "absolute":
        return None
    return parts if parts.words.dtype is torch.float32 else None


def _bert(model: Any) -> EncoderParts:
    body, classifier = getattr(model, "bert", model), getattr(model, "classifier", None)
    pooler = body.pooler
    return _like_bert(body, 0, classifier and (lambda first: classifier(pooler(first[:, None]))))


def _roberta(model: Any) -> EncoderParts:
    body, classifier = getattr(model, "roberta", model), getattr(model, "classifier", None)
    skipped = int(body.embeddings.padding_idx) + 1
    return _like_bert(body, skipped, classifier and (lambda first: classifier(first[:, None])))


def _like_bert(body: Any, skipped: int, classify: Classify | None) -> EncoderParts:
    embeddings = body.embeddings
    types = embeddings.token_type_embeddings.weight[0]
    return EncoderParts(
        words=embeddings.word_embeddings.weight.detach(),
        positions=(embeddings.position_embeddings.weight[skipped:] + types).detach(),
        norm=embeddings.LayerNorm,
        layers=[_bert_layer(one) for one in body.encoder.layer],
        heads=int(body.config.num_attention_heads),
        activation=str(body.config.hidden_act),
        classify=classify,
    )


def _bert_layer(layer: Any) -> LayerParts:
    attention = layer.attention.self
    return LayerParts(
        attention=(attention.query, attention.key, attention.value),
        attention_out=layer.attention.output.dense,
        attention_norm=layer.attention.output.LayerNorm,
        up=layer.intermediate.dense,
        down=layer.output.dense,
        norm=layer.output.LayerNorm,
    )


def _distilbert(model: Any) -> EncoderParts:
    body = getattr(model, "distilbert", model)
    embeddings = body.embeddings
    return EncoderParts(
        words=embeddings.word_embeddings.weight.detach(),
        positions=embeddings.position_embeddings.weight.detach(),
        norm=embeddings.LayerNorm,
        layers=[_distilbert_layer(one) for one in body.transformer.layer],
        heads=int(body.config.n_heads),
        activation=str(body.config.activation),
        classify=_distilbert_head(model),
    )


def _distilbert_head(model: Any) -> Classify | None:
    before, classifier = getattr(model, "pre_classifier", None), getattr(model, "classifier", None)
    if before is None or classifier is None:
        return None
    return lambda first: classifier(functional.relu(before(first)))


def _distilbert_layer(layer: Any) -> LayerParts:
    attention = layer.attention
    return LayerParts(
        attention=(attention.q_lin, attention.k_lin, attention.v_lin),
        attention_out=attention.out_lin,
        attention_norm=layer.sa_layer_norm,
        up=layer.ffn.lin1,
        down=layer.ffn.lin2,
        norm=layer.output_layer_norm,
    )


_FAMILIES: dict[str, Callable[[Any], EncoderParts]] = {
    "Bert": _bert,
    "Roberta": _roberta,
    "XLMRoberta": _roberta,
    "Camembert": _roberta,
    "DistilBert": _distilbert,
}
_NOT_MERELY = ("BertGeneration", "BertJapanese", "RobertaPreLayerNorm", "XLMRobertaXL")
"""Classes whose names begin alike but whose layers do not."""
