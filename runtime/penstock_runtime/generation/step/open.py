"""From a folder to a step that runs: load, measure, lay out the cache, choose what computes, check."""

from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from penstock_runtime.generation.limits import GenerationInfo, KVSpec
from penstock_runtime.generation.options import StepOptions
from penstock_runtime.generation.step import load
from penstock_runtime.generation.step.check import reference
from penstock_runtime.generation.step.computing import Computing, checked, choose
from penstock_runtime.generation.step.dtype import Measure, choose_dtype
from penstock_runtime.generation.step.dtype_times import measure_types
from penstock_runtime.generation.step.length import longest_of
from penstock_runtime.generation.step.measure import measure
from penstock_runtime.generation.step.memory import CACHE_SHARE, free_bytes, holds_float32
from penstock_runtime.generation.step.native.decoder import NativeDecoder
from penstock_runtime.generation.step.store import Store
from penstock_runtime.generation.step.torch_step import TorchStep
from penstock_runtime.generation.step.warm_up import timed_steps
from penstock_runtime.models.base import ModelLoadFailed
from penstock_runtime.models.device import backend_of, choose_device, pin_threads

MOST_CACHE_TOKENS = 1 << 22
"""More positions than any pod serves; keeps a tiny model on a large machine from claiming a quarter of it."""


def open_step(
    folder: Path,
    options: StepOptions,
    name: str,
    device: torch.device | None = None,
    measure_dtypes: Measure = measure_types,
) -> TorchStep:
    """Return the step for the model in `folder`, checked against the untouched model.

    To be called in the thread that will run it. `measure_dtypes` is asked only where no setting names a type.

    Raises:
        ModelLoadFailed: with one line that says what does not fit and the remedy.
    """
    pin_threads()
    device = device or choose_device()
    config = load.read_config(folder)
    bound = longest_of(config, options.max_model_len)
    dtype = choose_dtype(
        config,
        options,
        device,
        partial(holds_float32, folder, options, free_bytes(device)),
        measure_dtypes,
    )
    model = load.load_model(folder, config, dtype, device)
    computing = choose(model, options, device)
    kv = _layout(model, computing, options, device)
    longest = min(bound, kv.tokens)
    layers = model.config.get_text_config().num_hidden_layers
    store = Store(layers, kv.blocks + computing.spare_blocks, kv.host_blocks, computing.allocate)
    expected = reference(model)
    made = computing.decoders(model, store.layers, longest)
    decoder = checked(made, expected, kv.block_tokens, model.dtype)
    if options.batch_invariant and not isinstance(decoder, NativeDecoder):
        raise ModelLoadFailed(
            "batchInvariant holds only for known families in float32 or bfloat16 on a CPU, on the native decoder:"
            f" here {type(decoder).__name__} runs on {computing.name}; unset it, or see the log for why"
        )
    costs = measure(decoder, store, kv, longest)
    timed = timed_steps(decoder, kv, longest, options.max_running)
    info = GenerationInfo(
        name=name,
        backend=backend_of(device),
        attention=computing.name,
        dtype=str(model.dtype).removeprefix("torch."),
        vocabulary=model.config.get_text_config().vocab_size,
        max_model_len=longest,
        kv=kv,
        stop_ids=load.stop_ids(model),
        max_running=options.max_running,
        revision=load.revision(folder),
        prefill_token_seconds=costs.prefill_token,
        copied_block_seconds=costs.copied_block,
        warm_up=timed,
    )
    return TorchStep(info, decoder, store)


def _layout(
    model: PreTrainedModel, computing: Computing, options: StepOptions, device: torch.device
) -> KVSpec:
    """Return the cache's layout."""
    config = model.config.get_text_config()
    layer_bytes = computing.allocate(1).nbytes
    block_bytes = layer_bytes * config.num_hidden_layers
    wanted = options.cache_bytes
    if wanted is None:
        most = MOST_CACHE_TOKENS // computing.block_tokens * block_bytes
        with_copies = block_bytes + layer_bytes * computing.gathered_layers
        free = int(free_bytes(device) * CACHE_SHARE[device.type])
        wanted = min(free * block_bytes // with_copies, most)
    blocks = wanted // block_bytes - computing.spare_blocks
    if blocks < 2:  # one for a prompt, one for its answer
        raise ModelLoadFailed(
            f"the KV cache needs at least {(2 + computing.spare_blocks) * block_bytes} bytes, {wanted} are set apart or free:"
            " give the pod more memory"
        )
    return KVSpec(
        block_tokens=computing.block_tokens,
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
