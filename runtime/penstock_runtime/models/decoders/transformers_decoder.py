"""Any decoder-only model of transformers, as it is: only its attention is ours, called through the registry."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders.attention.base import AttentionBackend, HeadShape, LayerRule
from penstock_runtime.models.decoders.packing import PackedBatch

REGISTERED = "penstock"


Logits = torch.Tensor | NDArray[np.float32]
"""[S, vocabulary]; an array where the decoder needs no torch, of which any call costs tens of microseconds beside
weights that fill the processor's caches."""


class Decoder(Protocol):
    """A model over the paged cache."""

    captures: int
    """How often a step was recorded, to be replayed later: such a step takes longer than its work does."""

    def forward(self, packed: PackedBatch) -> Logits:
        """Return the logits of the positions that sample, having stored all keys and values."""


def _paged_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: torch.Tensor | None,
    **rule: Any,
) -> tuple[torch.Tensor, None]:
    """As transformers calls attention: tensors are [1, heads, T, size], the answer [1, T, heads, size]."""
    backend, cache = module.penstock_paged
    scaling = rule.get("scaling") or query.shape[-1] ** -0.5
    wanted = LayerRule(scaling, rule.get("softcap"), rule.get("sliding_window"))
    flat = (tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value))
    attended = backend.attend(cache, *flat, wanted)
    return attended.view(1, query.shape[2], query.shape[1], -1), None


def attention_modules(model: PreTrainedModel) -> list[Any]:
    """Return the attention modules, by layer.

    Raises:
        ModelLoadFailed: the model has layers without one, or several in one.
    """
    found = [
        module
        for module in model.modules()
        if getattr(module, "layer_idx", None) is not None and hasattr(module, "is_causal")
    ]
    layers = model.config.get_text_config().num_hidden_layers
    if [module.layer_idx for module in found] != list(range(layers)):
        raise ModelLoadFailed(
            f"model type '{model.config.model_type}' is not served: {len(found)} attention modules"
            f" were found for {layers} layers"
        )
    return found


def heads(model: PreTrainedModel) -> HeadShape:
    """Return the shape of the model's attention."""
    config = model.config.get_text_config()
    query = int(config.num_attention_heads)
    size = getattr(config, "head_dim", None) or config.hidden_size // query
    return HeadShape(query, int(getattr(config, "num_key_value_heads", None) or query), int(size))


class GenericDecoder:
    """The untouched modules, packed: one batch row, positions given, logits for sampling positions only."""

    captures = 0

    def __init__(
        self, model: PreTrainedModel, backend: AttentionBackend, caches: list[torch.Tensor]
    ) -> None:
        ALL_ATTENTION_FUNCTIONS.register(REGISTERED, _paged_attention)
        for module, cache in zip(attention_modules(model), caches, strict=True):
            module.penstock_paged = (backend, cache)
        model.set_attn_implementation(REGISTERED)
        self._model: Any = model
        self._backend = backend
        self._device = caches[0].device

    @torch.inference_mode()
    def forward(self, packed: PackedBatch) -> torch.Tensor:
        """As `Decoder.forward`."""
        self._backend.begin(packed)
        fed = (packed.ids, packed.positions, packed.last)
        return self.logits(*(torch.from_numpy(one).to(self._device) for one in fed))

    def logits(
        self, ids: torch.Tensor, positions: torch.Tensor, wanted: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the logits of `wanted` of the T tokens that are fed (None: all), the backend having begun the step."""
        out = self._model(
            input_ids=ids[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=0 if wanted is None else wanted,
        )
        logits: torch.Tensor = out.logits[0]
        return logits
