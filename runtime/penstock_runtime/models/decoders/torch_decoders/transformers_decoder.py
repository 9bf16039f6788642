"""`GenericDecoder`: runs any decoder-only transformers model with paged attention, through the attention registry."""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from typing_extensions import override

from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders.attention.base import AttentionBackend, HeadShape, LayerRule
from penstock_runtime.models.decoders.packing import PackedBatch

REGISTERED = "penstock"


Logits = torch.Tensor | NDArray[np.float32]
"""[S, vocabulary]; a numpy array if the decoder does not use torch, whose calls cost tens of microseconds each while
the weights fill the CPU caches."""


class Decoder(Protocol):
    """A model over the paged cache."""

    captures: int
    """Number of captured steps, which take longer than a normal step."""

    def forward(self, packed: PackedBatch) -> Logits:
        """Store all keys and values; return the logits of the sampling positions."""


def _paged_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: torch.Tensor | None,
    **rule: Any,
) -> tuple[torch.Tensor, None]:
    """Attention function of the registry: tensors are [1, heads, T, size], the result [1, T, heads, size]."""
    backend, cache = module.penstock_paged
    scaling = rule.get("scaling") or query.shape[-1] ** -0.5
    parameters = LayerRule(scaling, rule.get("softcap"), rule.get("sliding_window"))
    flat = (tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value))
    attended = backend.attend(cache, *flat, parameters)
    return attended.view(1, query.shape[2], query.shape[1], -1), None


def attention_modules(model: PreTrainedModel, layers: int) -> list[Any]:
    """Return the attention modules of `layers` consecutive layers, which are those that `model` has.

    Raises:
        ModelLoadFailed: a layer has no attention module, or several.
    """
    every: Iterable[Any] = model.modules()
    modules = [
        module
        for module in every
        if getattr(module, "layer_idx", None) is not None and hasattr(module, "is_causal")
    ]
    first = modules[0].layer_idx if modules else 0
    if [module.layer_idx for module in modules] != list(range(first, first + layers)):
        raise ModelLoadFailed(
            f"model type '{model.config.model_type}' is not supported: {len(modules)} attention modules"
            f" were found for {layers} layers"
        )
    return modules


def heads(model: PreTrainedModel, ranks: int) -> HeadShape:
    """Return the attention shape of one of the ranks that the model is split over."""
    config = model.config.get_text_config()
    query = int(config.num_attention_heads)
    size = getattr(config, "head_dim", None) or config.hidden_size // query
    kv = int(getattr(config, "num_key_value_heads", None) or query)
    return HeadShape(query // ranks, kv // ranks, int(size))


class GenericDecoder(Decoder):
    """The original modules over a packed step: one batch row, explicit positions, logits of sampling positions only."""

    captures = 0

    def __init__(
        self, model: PreTrainedModel, backend: AttentionBackend, caches: list[torch.Tensor]
    ) -> None:
        ALL_ATTENTION_FUNCTIONS.register(REGISTERED, _paged_attention)
        for module, cache in zip(attention_modules(model, len(caches)), caches, strict=True):
            module.penstock_paged = (backend, cache)
        model.set_attn_implementation(REGISTERED)
        self._model: Any = model
        self._backend = backend
        self._device = caches[0].device

    @override
    @torch.inference_mode()
    def forward(self, packed: PackedBatch) -> torch.Tensor:
        self._backend.begin(packed)
        inputs = (packed.ids, packed.positions, packed.last)
        return self.logits(*(torch.from_numpy(array).to(self._device) for array in inputs))

    def logits(
        self, ids: torch.Tensor, positions: torch.Tensor, selected: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the logits of the tokens at `selected` (None: all of T); the backend must have begun the step."""
        out = self._model(
            input_ids=ids[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=0 if selected is None else selected,
        )
        logits: torch.Tensor = out.logits[0]
        return logits
