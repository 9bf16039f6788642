"""Compute backends: each lays out the cache, and makes decoders over it for the check at load to judge."""

import importlib
import logging
from collections.abc import Iterator
from typing import Protocol

import torch
from transformers import PreTrainedModel

from penstock_runtime.engine.continuous.options import Compute, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed, describe
from penstock_runtime.models.decoders.attention.base import Geometry
from penstock_runtime.models.decoders.attention.gather import GatherAttention
from penstock_runtime.models.decoders.cuda_graph_decoder import MAX_GATHERED, CudaGraphDecoder
from penstock_runtime.models.decoders.fused_projections import fuse_projections
from penstock_runtime.models.decoders.graph_shapes import MAX_ROWS, padded_rows
from penstock_runtime.models.decoders.self_check import Expected, check
from penstock_runtime.models.decoders.transformers_decoder import Decoder, GenericDecoder, heads
from penstock_runtime.models.device.cuda_graphs import recorder_of

_log = logging.getLogger(__name__)

_OPENVINO = "penstock_runtime.models.decoders.openvino.backend"


class ComputeBackend(Protocol):
    """A layout of the cache, and the decoders that read it."""

    name: str
    block_tokens: int
    spare_blocks: int
    """The last of the cache's blocks, which the ledger does not know."""
    gathered_layers: int
    """How many layers' keys and values a step may copy, beside the cache, at most."""

    def allocate(self, blocks: int) -> torch.Tensor:
        """Return one layer's cache: the first axis is [2 * blocks]: keys of block b at b, values at blocks + b."""

    def decoders(
        self, model: PreTrainedModel, caches: list[torch.Tensor], longest: int
    ) -> Iterator[Decoder]:
        """Make the decoders that there are for `model`, the fastest first, each when it is asked for."""


class TorchBackend:
    """transformers' modules, projections merged, over the paged attention of `GatherAttention`."""

    name = GatherAttention.name

    def __init__(self, geometry: Geometry, options: StepOptions) -> None:
        self._attention = GatherAttention(geometry)
        self._recorder = recorder_of(geometry.device) if options.graphs else None
        self._most_rows = padded_rows(min(options.max_running, MAX_ROWS))
        self.block_tokens = geometry.block_tokens
        self.spare_blocks = 1 if self._recorder else 0
        self.gathered_layers = MAX_GATHERED if self._recorder else 0
        self.allocate = self._attention.allocate

    def decoders(
        self,
        model: PreTrainedModel,
        caches: list[torch.Tensor],
        longest: int,  # noqa: ARG002
    ) -> Iterator[Decoder]:
        """As `ComputeBackend.decoders`."""
        fuse_projections(model)
        plain = GenericDecoder(model, self._attention, caches)
        if self._recorder is not None:
            vocabulary = model.config.get_text_config().vocab_size
            logits = caches[0].new_empty((self._most_rows, vocabulary))
            scratch = len(caches[0]) // 2 - 1
            yield CudaGraphDecoder(plain, self._attention, self._recorder, scratch, logits)
        yield plain


def backend_for(
    compute: Compute, model: PreTrainedModel, options: StepOptions, device: torch.device
) -> ComputeBackend:
    """Return the backend `compute`, OPENVINO or TORCH, for `model`.

    Raises:
        ModelLoadFailed: it is not installed, or not for this type and device.
    """
    geometry = Geometry(heads(model), options.block_tokens, model.dtype, device)
    if compute is Compute.TORCH:
        return TorchBackend(geometry, options)
    try:
        module = importlib.import_module(_OPENVINO)
    except ImportError as error:
        raise ModelLoadFailed(
            f"PENSTOCK_COMPUTE_BACKEND=OpenVINO finds no OpenVINO of the right version here ({describe(error)}):"
            " unset it, or use an image that has the package"
        ) from error
    backend: ComputeBackend = module.OpenVinoBackend(geometry)
    return backend


def checked(
    decoders: Iterator[Decoder], expected: Expected, block_tokens: int, dtype: torch.dtype
) -> Decoder:
    """Return the first that answers as the untouched model does.

    Raises:
        ModelLoadFailed: none does; what the last was wrong by.
    """
    wrong = ModelLoadFailed("unreachable: there is always one")
    for decoder in decoders:
        try:
            check(decoder, expected, block_tokens, dtype)
        except ModelLoadFailed as error:
            _log.warning("%s is not used: %s", type(decoder).__name__, error)
            wrong = error
        else:
            return decoder
    raise wrong
