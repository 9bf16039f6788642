"""Free memory, and the share of it that the KV cache takes."""

from pathlib import Path

import torch

from penstock_runtime.cgroup import free_memory_bytes
from penstock_runtime.engine.continuous.options import StepOptions

CACHE_SHARE = {"cpu": 0.25, "cuda": 0.85}
"""Share of the memory free after loading, by device; on a CPU the HTTP side and the page cache need the rest."""
WEIGHT_COPIES = 3
"""Copies of the weights at the peak of a load on a CPU: transformers' modules, OpenVINO's constants and packed weights."""


def free_bytes(device: torch.device) -> int:
    """Return the free bytes of the device, or of the container on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_memory_bytes()


def fits_float32(folder: Path, options: StepOptions, free: int) -> bool:
    """Return whether the 16-bit weights in `folder`, widened to float32, and the KV cache fit in `free` bytes."""
    stored = sum(file.stat().st_size for file in folder.glob("model*.safetensors"))
    weights = 2 * stored
    cache = options.cache_bytes
    if cache is None:
        cache = int(max(0, free - weights) * CACHE_SHARE["cpu"])
    return WEIGHT_COPIES * weights + cache + options.host_cache_bytes <= free
