"""Compute backends: each defines the layout of the cache and creates decoders over it, which are verified at load."""

import importlib
import logging
from collections.abc import Iterator
from typing import Protocol

import torch
from transformers import PreTrainedModel
from typing_extensions import override

from penstock_runtime.engine.continuous.steps.options import Compute, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed, describe
from penstock_runtime.models.decoders.attention.base import Geometry
from penstock_runtime.models.decoders.attention.gather import GatherAttention
from penstock_runtime.models.decoders.torch_decoders.cuda_graph_decoder import (
    MAX_GATHERED,
    MAX_ROWS,
    CudaGraphDecoder,
    padded_rows,
)
from penstock_runtime.models.decoders.torch_decoders.fused_projections import fuse_projections
from penstock_runtime.models.decoders.torch_decoders.self_check import Expected, check
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import (
    Decoder,
    GenericDecoder,
    heads,
)
from penstock_runtime.models.device.cuda_graphs import recorder_of

_log = logging.getLogger(__name__)

_OPENVINO = "penstock_runtime.models.decoders.openvino.backend"


class ComputeBackend(Protocol):
    """A layout of the cache and the decoders over it."""

    name: str
    block_tokens: int
    spare_blocks: int
    """Blocks at the end of the cache that the block manager does not use."""
    gathered_layers: int
    """Memory to reserve for gathered keys and values, in layers of the cache."""

    def allocate(self, blocks: int) -> torch.Tensor:
        """Return one layer's cache, whose first axis is [2 * blocks]: keys of block b at b, values at blocks + b."""

    def decoders(
        self, model: PreTrainedModel, caches: list[torch.Tensor], longest: int
    ) -> Iterator[Decoder]:
        """Yield the decoders for `model`, fastest first, each created on demand."""


class TorchBackend(ComputeBackend):
    """transformers' modules with fused projections over `GatherAttention`."""

    name = GatherAttention.name

    def __init__(self, geometry: Geometry, options: StepOptions) -> None:
        self._attention = GatherAttention(geometry)
        self._recorder = recorder_of(geometry.device) if options.graphs else None
        self._max_rows = padded_rows(min(options.max_running, MAX_ROWS))
        self.block_tokens = geometry.block_tokens
        self.spare_blocks = 1 if self._recorder else 0
        self.gathered_layers = MAX_GATHERED if self._recorder else 0

    @override
    def allocate(self, blocks: int) -> torch.Tensor:
        return self._attention.allocate(blocks)

    @override
    def decoders(
        self,
        model: PreTrainedModel,
        caches: list[torch.Tensor],
        longest: int,
    ) -> Iterator[Decoder]:
        fuse_projections(model)
        plain = GenericDecoder(model, self._attention, caches)
        if self._recorder is not None:
            vocabulary = model.config.get_text_config().vocab_size
            logits = caches[0].new_empty((self._max_rows, vocabulary))
            scratch = len(caches[0]) // 2 - 1
            yield CudaGraphDecoder(plain, self._attention, self._recorder, scratch, logits)
        yield plain


def backend_for(
    compute: Compute, model: PreTrainedModel, options: StepOptions, device: torch.device
) -> ComputeBackend:
    """Return the backend `compute`, OPENVINO or TORCH, for `model`.

    Raises:
        ModelLoadFailed: the backend is not installed, or does not support this type and device.
    """
    geometry = Geometry(
        heads(model, options.tensor_parallel), options.block_tokens, model.dtype, device
    )
    if compute is Compute.TORCH:
        return TorchBackend(geometry, options)
    try:
        module = importlib.import_module(_OPENVINO)
    except ImportError as error:
        raise ModelLoadFailed(
            f"PENSTOCK_COMPUTE_BACKEND=OpenVINO requires OpenVINO, which cannot be imported ({describe(error)}):"
            " unset it, or use an image with the package"
        ) from error
    backend: ComputeBackend = module.OpenVinoBackend(geometry)
    return backend


def checked(
    decoders: Iterator[Decoder], expected: Expected, block_tokens: int, dtype: torch.dtype
) -> Decoder:
    """Return the first decoder whose logits match the original model.

    Raises:
        ModelLoadFailed: no decoder matches; the message has the error of the last.
    """
    failure = ModelLoadFailed("unreachable: every backend has a decoder")
    for decoder in decoders:
        try:
            check(decoder, expected, block_tokens, dtype)
        except ModelLoadFailed as error:
            _log.warning("%s is not used: %s", type(decoder).__name__, error)
            failure = error
        else:
            return decoder
    raise failure
