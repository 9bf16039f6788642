"""Capacity of a generative model: the maximum length of a sequence, and the memory for weights and the KV cache."""

from pathlib import Path

import torch
from transformers import PreTrainedConfig

from penstock_runtime.cgroup import free_memory_bytes
from penstock_runtime.engine.continuous.steps.options import StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.weights import weight_files

CACHE_SHARE = {"cpu": 0.25, "cuda": 0.85}
"""Share of the memory free after loading, by device; on a CPU the HTTP side and the page cache need the rest."""
WEIGHT_COPIES = 3
"""Copies of the weights at the peak of a load on a CPU: transformers' modules, OpenVINO's constants and packed weights."""


def max_length_of(config: PreTrainedConfig, requested: int | None) -> int:
    """Return the maximum length of a sequence: `requested` positions, at most the model's own limit.

    LongRoPE (arXiv 2402.13753) has separate factors for short and long sequences. transformers selects one set per
    call, by the longest sequence, although the keys of the others were cached with the other set. Up to the original
    length only the short factors apply. A `dynamic` rope changes only beyond the model's own limit.

    Raises:
        ModelLoadFailed: the length exceeds the original length of a LongRoPE.
    """
    text = config.get_text_config()
    own = _own_limit(text)
    longest = min(own, requested or own)
    original = _original_length(text)
    if original is not None and longest > original:
        raise ModelLoadFailed(
            f"rope type 'longrope' of model type '{text.model_type}' is supported up to its original"
            f" {original} positions, beyond which a long sequence changes the outputs of its batch-mates:"
            f" set generation.contextLength (PENSTOCK_MAX_MODEL_LEN) to at most {original}, got {longest}"
        )
    return longest


def _own_limit(config: PreTrainedConfig) -> int:
    for name in ("max_position_embeddings", "n_positions"):
        bound = getattr(config, name, None)
        if bound:
            return int(bound)
    return 2048


def _original_length(config: PreTrainedConfig) -> int | None:
    """Return the shortest original length of a model's LongRoPEs; None if it has none."""
    parameters = getattr(config, "rope_parameters", None) or {}
    by_layer_type = [rope for rope in parameters.values() if isinstance(rope, dict)]
    lengths = [
        int(rope["original_max_position_embeddings"])
        for rope in (parameters, *by_layer_type)
        if rope.get("rope_type") == "longrope"
    ]
    return min(lengths, default=None)


def free_bytes(device: torch.device) -> int:
    """Return the free bytes of the device, or of the container on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_memory_bytes()


def cache_share(options: StepOptions, device_type: str, ranks: int = 1) -> float:
    """Return the share of the memory free after loading that the KV cache takes if it has no size.

    On a CPU, the `ranks` of a pod share the memory of its container.
    """
    percent = options.cache_percent
    share = CACHE_SHARE[device_type] if percent is None else percent / 100
    return share / ranks if device_type == "cpu" else share


def fits_float32(folder: Path, options: StepOptions, free: int, ranks: int = 1) -> bool:
    """Return whether the 16-bit weights in `folder`, widened to float32, and the KV cache fit in `free` bytes for `ranks` in a pod."""
    stored = sum(file.stat().st_size for file in weight_files(folder) if file.is_file())
    weights = 2 * stored
    cache = options.cache_bytes
    if cache is None:
        cache = int(max(0, free - weights) * cache_share(options, "cpu", ranks))
    return WEIGHT_COPIES * weights + cache + options.host_cache_bytes <= free
