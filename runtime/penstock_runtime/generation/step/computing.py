"""What computes a model's forward: it lays out the cache, and makes decoders over it for the check to judge."""

import importlib
import logging
from collections.abc import Iterator
from typing import Protocol

import torch
from transformers import PreTrainedModel

from penstock_runtime.generation.options import Compute, StepOptions
from penstock_runtime.generation.step import probe
from penstock_runtime.generation.step.attention.base import Geometry
from penstock_runtime.generation.step.attention.gather import GatherAttention
from penstock_runtime.generation.step.blueprint import UnknownFamily, take_apart
from penstock_runtime.generation.step.check import Expected, check
from penstock_runtime.generation.step.generic import Decoder, GenericDecoder, heads
from penstock_runtime.generation.step.graphed import MOST_GATHERED, GraphedDecoder
from penstock_runtime.generation.step.native.attention import NativeAttention
from penstock_runtime.generation.step.native.decoder import NativeDecoder
from penstock_runtime.generation.step.shapes import MOST_ROWS, padded_rows
from penstock_runtime.generation.step.surgery import merge_projections
from penstock_runtime.models.base import ModelLoadFailed, describe
from penstock_runtime.models.graphs import recorder_of

_log = logging.getLogger(__name__)

_OPENVINO = "penstock_runtime.generation.step.openvino.computing"


class Computing(Protocol):
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


class OwnComputing:
    """The C file, or transformers' modules around an attention backend."""

    def __init__(self, geometry: Geometry, options: StepOptions) -> None:
        self._geometry = geometry
        self._backend = probe.choose(probe.MAKERS, options.attention, geometry)
        self._surgery = options.surgery
        recorder = recorder_of(geometry.device) if options.graphs else None
        self._recorder = recorder if isinstance(self._backend, GatherAttention) else None
        self._most_rows = padded_rows(min(options.max_running, MOST_ROWS))
        self.name = self._backend.name
        self.block_tokens = geometry.block_tokens
        self.spare_blocks = 1 if self._recorder else 0
        self.gathered_layers = MOST_GATHERED if self._recorder else 0
        self.allocate = self._backend.allocate

    def decoders(
        self, model: PreTrainedModel, caches: list[torch.Tensor], longest: int
    ) -> Iterator[Decoder]:
        """As `Computing.decoders`."""
        if not self._surgery:
            yield from self._generic(model, caches)
            return
        if isinstance(self._backend, NativeAttention):
            try:
                parts = take_apart(model, longest)
                yield NativeDecoder(self._backend.library, parts, self._geometry, caches, longest)
            except UnknownFamily as error:
                _log.info("the model runs on its own modules: %s", error)
        merge_projections(model)
        yield from self._generic(model, caches)

    def _generic(self, model: PreTrainedModel, caches: list[torch.Tensor]) -> Iterator[Decoder]:
        plain = GenericDecoder(model, self._backend, caches)
        if self._recorder is not None and isinstance(self._backend, GatherAttention):
            vocabulary = model.config.get_text_config().vocab_size
            logits = caches[0].new_empty((self._most_rows, vocabulary))
            scratch = len(caches[0]) // 2 - 1
            yield GraphedDecoder(plain, self._backend, self._recorder, scratch, logits)
        yield plain


def choose(model: PreTrainedModel, options: StepOptions, device: torch.device) -> Computing:
    """Return what `options` ask for.

    Raises:
        ModelLoadFailed: it is not there, or not for this dtype and device.
    """
    geometry = Geometry(heads(model), options.block_tokens, model.dtype, device)
    if options.compute is Compute.OWN:
        return OwnComputing(geometry, options)
    try:
        module = importlib.import_module(_OPENVINO)
    except ImportError as error:
        raise ModelLoadFailed(
            f"PENSTOCK_STEP=OpenVINO has no OpenVINO of the right version here ({describe(error)}):"
            " use an image with penstock[openvino], or unset it"
        ) from error
    computing: Computing = module.OpenVinoComputing(geometry)
    return computing


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
