"""`parts_of`: extracts the layers of BERT and related architectures from the model classes of `transformers`.

The architectures listed here can run packed. All others run padded, by their own forward.
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
    """One layer: attention and two linears, each followed by a residual and a norm."""

    attention: tuple[torch.nn.Linear, torch.nn.Linear, torch.nn.Linear]
    """Query, key, value."""
    attention_out: torch.nn.Linear
    attention_norm: torch.nn.LayerNorm
    up: torch.nn.Linear
    down: torch.nn.Linear
    norm: torch.nn.LayerNorm


@dataclass(frozen=True, slots=True)
class EncoderParts:
    """Parts of a whole encoder."""

    words: torch.Tensor
    positions: torch.Tensor
    """Position embeddings from the first token on, plus the type embedding of the first segment."""
    norm: torch.nn.LayerNorm
    layers: Sequence[LayerParts]
    heads: int
    activation: str
    classify: Classify | None
    """Maps hidden states of the first token (rows, width) to logits; references only the last layers."""


def parts_of(model: Any) -> EncoderParts | None:
    """Return the parts of a model of a known architecture with float32 weights, else None."""
    name = type(model).__name__
    if name.startswith(_UNSUPPORTED):
        return None
    family = next((prefix for prefix in _FAMILIES if name.startswith(prefix)), None)
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
        layers=[_bert_layer(layer) for layer in body.encoder.layer],
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
        layers=[_distilbert_layer(layer) for layer in body.transformer.layer],
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
_UNSUPPORTED = ("BertGeneration", "BertJapanese", "RobertaPreLayerNorm", "XLMRobertaXL")
"""Classes with the same name prefix but other layers."""
