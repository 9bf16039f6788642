"""From a folder to a step that runs: select, load, lay out the cache, check, measure."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from penstock_runtime.engine.continuous.limits import GenerationInfo, KVSpec
from penstock_runtime.engine.continuous.options import Compute, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders import load
from penstock_runtime.models.decoders.backends import ComputeBackend, backend_for, checked
from penstock_runtime.models.decoders.kv_store import KvStore
from penstock_runtime.models.decoders.max_length import max_length_of
from penstock_runtime.models.decoders.memory import CACHE_SHARE, fits_float32, free_bytes
from penstock_runtime.models.decoders.one_token import OneTokenDecoder
from penstock_runtime.models.decoders.selection import Measure, select
from penstock_runtime.models.decoders.self_check import Expected, reference
from penstock_runtime.models.decoders.step import TorchStep
from penstock_runtime.models.decoders.step_times import measure_steps
from penstock_runtime.models.decoders.transformers_decoder import Decoder
from penstock_runtime.models.decoders.warm_up import measure, timed_steps
from penstock_runtime.models.device.device import backend_of, choose_device, pin_threads

MAX_CACHE_TOKENS = 1 << 22
"""More positions than any pod serves; keeps a tiny model on a large machine from claiming a quarter of it."""

_log = logging.getLogger(__name__)


def open_step(
    folder: Path,
    options: StepOptions,
    name: str,
    device: torch.device | None = None,
    measure_candidates: Measure = measure_steps,
) -> TorchStep:
    """Return the step for the model in `folder`, checked against the untouched model.

    To be called in the thread that will run it. `measure_candidates` is called only where the settings leave a choice.

    Raises:
        ModelLoadFailed: with one line that says what does not fit and the remedy.
    """
    pin_threads()
    device = device or choose_device()
    if options.batch_invariant and device.type != "cpu":
        raise ModelLoadFailed(
            f"PENSTOCK_BATCH_INVARIANT holds on CPUs only, and this pod computes on {device.type}: unset it"
        )
    config = load.read_config(folder)
    bound = max_length_of(config, options.max_model_len)
    has_room = partial(fits_float32, folder, options, free_bytes(device))
    selected = select(config, options, device, has_room, measure_candidates)
    model = load.load_model(folder, config, selected.dtype, device)
    served = _assembled_or_torch(_Source(model, options, device, bound), selected.compute)
    kv, decoder = served.kv, served.decoder
    costs = measure(decoder, served.store, kv, served.longest)
    timed = timed_steps(decoder, kv, served.longest, options.max_running)
    info = GenerationInfo(
        name=name,
        backend=backend_of(device),
        attention=served.backend.name,
        dtype=str(model.dtype).removeprefix("torch."),
        vocabulary=model.config.get_text_config().vocab_size,
        max_model_len=served.longest,
        kv=kv,
        stop_ids=load.stop_ids(model),
        max_running=options.max_running,
        revision=load.revision(folder),
        prefill_token_seconds=costs.prefill_token,
        copied_block_seconds=costs.copied_block,
        warm_up=timed,
    )
    return TorchStep(info, decoder, served.store)


@dataclass(frozen=True, slots=True)
class _Source:
    """What a decoder is made from."""

    model: PreTrainedModel
    options: StepOptions
    device: torch.device
    bound: int
    """Positions that the model and the settings allow a sequence."""


@dataclass(frozen=True, slots=True)
class _Assembled:
    """A backend with its cache, and a decoder over it that passed the check."""

    backend: ComputeBackend
    kv: KVSpec
    store: KvStore
    decoder: Decoder
    longest: int
    """Positions that a sequence may have in this cache."""


def _assembled_or_torch(source: _Source, compute: Compute) -> _Assembled:
    """Assemble `compute`, else torch, unless the settings name a backend."""
    expected = reference(source.model)
    try:
        return _assemble(source, compute, expected)
    except ModelLoadFailed as error:
        if compute is Compute.TORCH or source.options.compute is not Compute.AUTO:
            raise
        _log.warning("the torch backend serves, for %s does not: %s", compute, error)
    return _assemble(source, Compute.TORCH, expected)


def _assemble(source: _Source, compute: Compute, expected: Expected) -> _Assembled:
    model, options = source.model, source.options
    backend = backend_for(compute, model, options, source.device)
    kv = _layout(model, backend, options, source.device)
    longest = min(source.bound, kv.tokens)
    layers = model.config.get_text_config().num_hidden_layers
    store = KvStore(layers, kv.blocks + backend.spare_blocks, kv.host_blocks, backend.allocate)
    decoders = backend.decoders(model, store.layers, longest)
    decoder = checked(decoders, expected, kv.block_tokens, model.dtype)
    if options.batch_invariant:
        decoder = OneTokenDecoder(decoder)
    return _Assembled(backend, kv, store, decoder, longest)


def _layout(
    model: PreTrainedModel, backend: ComputeBackend, options: StepOptions, device: torch.device
) -> KVSpec:
    """Return the cache's layout."""
    config = model.config.get_text_config()
    layer_bytes = backend.allocate(1).nbytes
    block_bytes = layer_bytes * config.num_hidden_layers
    wanted = options.cache_bytes
    if wanted is None:
        most = MAX_CACHE_TOKENS // backend.block_tokens * block_bytes
        with_copies = block_bytes + layer_bytes * backend.gathered_layers
        free = int(free_bytes(device) * CACHE_SHARE[device.type])
        wanted = min(free * block_bytes // with_copies, most)
    blocks = wanted // block_bytes - backend.spare_blocks
    if blocks < 2:  # one for a prompt, one for its answer
        raise ModelLoadFailed(
            f"the KV cache needs at least {(2 + backend.spare_blocks) * block_bytes} bytes, {wanted} are set apart or free:"
            " give the pod more memory"
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
