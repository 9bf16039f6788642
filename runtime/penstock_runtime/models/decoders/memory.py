"""Memory that a model may take next to its KV cache."""

from pathlib import Path

import torch

from penstock_runtime.cgroup import free_memory_bytes
from penstock_runtime.engine.continuous.options import StepOptions

CACHE_SHARE = {"cpu": 0.25, "cuda": 0.85}
"""Of the memory that is free after loading: a CPU's is shared with the HTTP side and the page cache."""
WEIGHT_COPIES = 3
"""Of the weights at the peak of a load on a CPU: transformers' modules, OpenVINO's constants, and what it packs of them."""


def free_bytes(device: torch.device) -> int:
    """Return the bytes that the device, or the container on a CPU, has free."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_memory_bytes()


def fits_float32(folder: Path, options: StepOptions, free: int) -> bool:
    """Return whether 16-bit weights of `folder` widened to float32 fit a CPU's `free` bytes with the KV cache."""
    stored = sum(file.stat().st_size for file in folder.glob("model*.safetensors"))
    weights = 2 * stored
    cache = options.cache_bytes
    if cache is None:
        cache = int(max(0, free - weights) * CACHE_SHARE["cpu"])
    return WEIGHT_COPIES * weights + cache + options.host_cache_bytes <= free
