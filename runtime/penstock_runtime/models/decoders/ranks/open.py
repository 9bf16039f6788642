"""`open_leader` and `open_follower`: load one rank of a generative model that is split over several processes."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import torch

from penstock_runtime.engine.continuous.steps.options import Compute, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import RankSeat
from penstock_runtime.models.decoders import load
from penstock_runtime.models.decoders.backends.selection import select
from penstock_runtime.models.decoders.backends.step_times import measure_steps
from penstock_runtime.models.decoders.capacity import fits_float32, free_bytes, max_length_of
from penstock_runtime.models.decoders.open import (
    AssembledDecoder,
    DecoderSource,
    assemble,
    warmed_step,
)
from penstock_runtime.models.decoders.precision import TokenComparison
from penstock_runtime.models.decoders.ranks.group import RankGroup
from penstock_runtime.models.decoders.ranks.layout import RANKS_VARIABLES, family_of
from penstock_runtime.models.decoders.ranks.leader import Follower, Leader
from penstock_runtime.models.decoders.ranks.modules import load_shard
from penstock_runtime.models.decoders.ranks.pipeline import own_layers
from penstock_runtime.models.decoders.step import TorchStep
from penstock_runtime.models.decoders.torch_decoders.self_check import Expected, check, reference
from penstock_runtime.models.device.device import pin_threads


def open_leader(folder: Path, options: StepOptions, name: str, seat: RankSeat) -> TorchStep:
    """Return the step of rank 0, which leads all others. Must be called in the thread that runs it.

    Raises:
        ModelLoadFailed: the message has one line with the reason and the remedy.
    """
    opened = _open_rank(folder, options, seat)
    source, assembled, comparison = opened.source, opened.assembled, opened.comparison
    leader = Leader(assembled.decoder, assembled.store, opened.group)
    check(leader, opened.expected, assembled.kv.block_tokens, source.model.dtype)
    errors = None
    if comparison is not None:
        errors = comparison.end(leader, assembled.kv, assembled.longest, Compute.TORCH)
    step = warmed_step(folder, source, replace(assembled, decoder=leader, store=leader), name)
    step.info = replace(step.info, model_backend=errors)
    return step


def open_follower(folder: Path, options: StepOptions, seat: RankSeat) -> Follower:
    """Return a rank that runs the steps of rank 0. Must be called in the thread that runs it.

    Raises:
        ModelLoadFailed: the message has one line with the reason and the remedy.
    """
    opened = _open_rank(folder, options, seat)
    return Follower(opened.assembled.decoder, opened.assembled.store, opened.group)


@dataclass(frozen=True, slots=True)
class _OpenedRank:
    """A shard with its cache and its decoder."""

    source: DecoderSource
    assembled: AssembledDecoder
    expected: Expected
    """The logits that transformers' attention gives, on rank 0."""
    comparison: TokenComparison | None
    group: RankGroup


def _open_rank(folder: Path, options: StepOptions, seat: RankSeat) -> _OpenedRank:
    """Load a shard. All ranks decide the same; before they load, rank 0 computes in float32 what a requested type is compared with."""
    pin_threads()
    device = _device_of(seat)
    config = load.read_config(folder)
    family_of(config, seat.tensor)
    layers = len(own_layers(config, seat))
    options = rank_options(
        options, device, Fraction(layers, seat.tensor * config.num_hidden_layers)
    )
    bound = max_length_of(config, options.max_model_len)
    group = RankGroup(seat, device)
    has_room = partial(fits_float32, folder, options, free_bytes(device), seat.ranks_in_pod)
    selected = group.from_first(
        lambda: select(
            config,
            replace(options, tensor_parallel=1, pipeline_parallel=1),
            device,
            has_room,
            measure_steps,
        )
    )
    comparison = group.from_first(
        lambda: TokenComparison.begin(folder, config, selected, device, options)
    )
    model = load_shard(folder, config, selected.dtype, device, group)
    source = DecoderSource(model, options, device, bound, layers, seat.ranks_in_pod, group.smallest)
    expected = reference(model)
    assembled = assemble(source, Compute.TORCH, None)
    return _OpenedRank(source, assembled, expected, comparison, group)


def rank_options(options: StepOptions, device: torch.device, share: Fraction) -> StepOptions:
    """Return the options of one rank, which has `share` of the cache.

    Raises:
        ModelLoadFailed: an option allows one rank only.
    """
    if options.compute is Compute.OPENVINO:
        raise ModelLoadFailed(
            f"PENSTOCK_COMPUTE_BACKEND=OpenVINO runs in one rank, but this model is split over {options.ranks}:"
            f" unset it, or {RANKS_VARIABLES}"
        )
    if options.batch_invariant and device.type != "cpu":
        raise ModelLoadFailed(
            f"PENSTOCK_BATCH_INVARIANT is supported on CPUs only, and this pod runs on {device.type}: unset it"
        )
    cache = options.cache_bytes
    return replace(
        options,
        compute=Compute.TORCH,
        graphs=False,
        cache_bytes=None if cache is None else int(cache * share),
        host_cache_bytes=int(options.host_cache_bytes * share),
    )


def _device_of(seat: RankSeat) -> torch.device:
    """Return the CUDA device of this rank, or the CPU in a container without devices."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    devices, needed = torch.cuda.device_count(), seat.ranks_in_pod
    if devices < needed:
        where = f", {needed} in each of {seat.pods} pods" if seat.pods > 1 else ""
        raise ModelLoadFailed(
            f"this model is split over {seat.ranks} ranks ({RANKS_VARIABLES}){where}, but this container has {devices} CUDA"
            " devices: raise spec.accelerator.count, or use fewer ranks"
        )
    torch.cuda.set_device(seat.device)
    return torch.device("cuda", seat.device)
