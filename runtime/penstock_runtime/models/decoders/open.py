"""`open_step`: loads a generative model: selects the backend, loads, allocates the cache, verifies and measures."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from penstock_runtime.engine.continuous.limits import GenerationInfo, KVSpec
from penstock_runtime.engine.continuous.steps.options import Compute, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders import load
from penstock_runtime.models.decoders.backends.registry import ComputeBackend, backend_for, checked
from penstock_runtime.models.decoders.backends.selection import Measure, select
from penstock_runtime.models.decoders.backends.step_times import measure_steps
from penstock_runtime.models.decoders.capacity import (
    cache_share,
    fits_float32,
    free_bytes,
    max_length_of,
)
from penstock_runtime.models.decoders.kv_store import BlockStore, KvStore
from penstock_runtime.models.decoders.precision import TokenComparison
from penstock_runtime.models.decoders.revision import revision
from penstock_runtime.models.decoders.step import TorchStep
from penstock_runtime.models.decoders.torch_decoders.one_token import OneTokenDecoder
from penstock_runtime.models.decoders.torch_decoders.self_check import Expected, reference
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder
from penstock_runtime.models.decoders.warm_up import measure, timed_steps
from penstock_runtime.models.device.device import backend_of, choose_device, pin_threads

MAX_CACHE_TOKENS = 1 << 22
"""Limit of the cache in positions, which keeps a tiny model from claiming a quarter of a large machine."""

_log = logging.getLogger(__name__)


def open_step(
    folder: Path,
    options: StepOptions,
    name: str,
    device: torch.device | None = None,
    measure_candidates: Measure = measure_steps,
) -> TorchStep:
    """Return the step for the model in `folder`, verified against the original model.

    Must be called in the thread that runs it. `measure_candidates` is called only if the settings leave a choice.

    Raises:
        ModelLoadFailed: the message has one line with the reason and the remedy.
    """
    pin_threads()
    device = device or choose_device()
    if options.batch_invariant and device.type != "cpu":
        raise ModelLoadFailed(
            f"PENSTOCK_BATCH_INVARIANT is supported on CPUs only, and this pod runs on {device.type}: unset it"
        )
    config = load.read_config(folder)
    bound = max_length_of(config, options.max_model_len)
    has_room = partial(fits_float32, folder, options, free_bytes(device))
    selected = select(config, options, device, has_room, measure_candidates)
    comparison = TokenComparison.begin(folder, config, selected, device, options)
    model = load.load_model(folder, config, selected.dtype, device)
    layers = config.get_text_config().num_hidden_layers
    source = DecoderSource(model, options, device, bound, layers)
    assembled = _assembled_or_torch(source, selected.compute)
    errors = None
    if comparison is not None:
        used = Compute.OPENVINO if assembled.backend.name == "openvino" else Compute.TORCH
        errors = comparison.end(assembled.decoder, assembled.kv, assembled.longest, used)
    step = warmed_step(folder, source, assembled, name)
    step.info = replace(step.info, model_backend=errors)
    return step


@dataclass(frozen=True, slots=True)
class DecoderSource:
    """Inputs of a decoder's construction."""

    model: PreTrainedModel
    options: StepOptions
    device: torch.device
    bound: int
    """Limit of a sequence's positions by the model and the settings."""
    layers: int
    """Layers that `model` has: all, or those of its stage."""
    ranks: int = 1
    """Ranks in this pod."""
    agreed: Callable[[int], int] = int
    """Returns the number of blocks that all ranks have room for, given that of this one."""


@dataclass(frozen=True, slots=True)
class AssembledDecoder:
    """A backend, its cache, and a decoder over it."""

    backend: ComputeBackend
    kv: KVSpec
    store: BlockStore
    decoder: Decoder
    longest: int
    """Limit of a sequence's positions in this cache."""


def warmed_step(
    folder: Path, source: DecoderSource, assembled: AssembledDecoder, name: str
) -> TorchStep:
    """Return the step of a decoder, after timing it."""
    model, options = source.model, source.options
    kv, decoder = assembled.kv, assembled.decoder
    costs = measure(decoder, assembled.store, kv, assembled.longest)
    timed = timed_steps(decoder, kv, assembled.longest, options.max_running)
    info = GenerationInfo(
        name=name,
        backend=backend_of(source.device),
        attention=assembled.backend.name,
        dtype=str(model.dtype).removeprefix("torch."),
        vocabulary=model.config.get_text_config().vocab_size,
        max_model_len=assembled.longest,
        kv=kv,
        stop_ids=load.stop_ids(model),
        max_running=options.max_running,
        revision=revision(folder),
        prefill_token_seconds=costs.prefill_token,
        copied_block_seconds=costs.copied_block,
        warm_up=timed,
        sampling=load.sampling_defaults(model),
    )
    return TorchStep(info, decoder, assembled.store)


def _assembled_or_torch(source: DecoderSource, compute: Compute) -> AssembledDecoder:
    """Assemble `compute`, or torch if that fails and the settings name no backend."""
    expected = reference(source.model)
    try:
        return assemble(source, compute, expected)
    except ModelLoadFailed as error:
        if compute is Compute.TORCH or source.options.compute is not Compute.AUTO:
            raise
        _log.warning("falling back to the torch backend, because %s failed: %s", compute, error)
    return assemble(source, Compute.TORCH, expected)


def assemble(
    source: DecoderSource, compute: Compute, expected: Expected | None
) -> AssembledDecoder:
    """Return a cache and a decoder of the backend `compute`; `expected` verifies it, unless ranks do so together.

    Raises:
        ModelLoadFailed: the cache does not fit, or the decoder does not give the `expected` logits.
    """
    model, options = source.model, source.options
    backend = backend_for(compute, model, options, source.device)
    kv = _layout(source, backend)
    longest = min(source.bound, kv.tokens)
    store = KvStore(
        source.layers, kv.blocks + backend.spare_blocks, kv.host_blocks, backend.allocate
    )
    decoders = backend.decoders(model, store.layers, longest)
    if expected is None:
        decoder = next(decoders)
    else:
        decoder = checked(decoders, expected, kv.block_tokens, model.dtype)
    if options.batch_invariant:
        decoder = OneTokenDecoder(decoder)
    return AssembledDecoder(backend, kv, store, decoder, longest)


def _layout(source: DecoderSource, backend: ComputeBackend) -> KVSpec:
    """Return the layout of the cache."""
    options, device = source.options, source.device
    config = source.model.config.get_text_config()
    layer_bytes = backend.allocate(1).nbytes
    block_bytes = layer_bytes * source.layers
    cache_bytes = options.cache_bytes
    if cache_bytes is None:
        limit = MAX_CACHE_TOKENS // backend.block_tokens * block_bytes
        with_copies = block_bytes + layer_bytes * backend.gathered_layers
        free = int(free_bytes(device) * cache_share(options, device.type, source.ranks))
        cache_bytes = min(free * block_bytes // with_copies, limit)
    blocks = source.agreed(cache_bytes // block_bytes) - backend.spare_blocks
    if blocks < 2:  # one for a prompt and one for its output
        raise ModelLoadFailed(
            f"the KV cache needs at least {(2 + backend.spare_blocks) * block_bytes} bytes,"
            f" but only {cache_bytes} are available:"
            " give the pod more memory, or raise generation.kvCache"
        )
    return KVSpec(
        block_tokens=backend.block_tokens,
        blocks=blocks,
        host_blocks=options.host_cache_bytes // block_bytes,
        block_bytes=block_bytes,
        sliding_windows=_windows(config),
    )


def _windows(config: object) -> tuple[int, ...]:
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ()
    sliding = "sliding_attention" in types or (window is not None and not types)
    return (int(window),) if window and sliding else ()
