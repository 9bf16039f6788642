"""Where torch computes, with how many threads, and how its errors read."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from penstock_runtime.models.base import OutOfMemory, describe
from penstock_runtime.models.cgroup import cpu_quota

_CPU_ALLOCATOR = "DefaultCPUAllocator"
"""How torch's allocator for CPUs signs its RuntimeError: it has no type of its own."""


def choose_device() -> torch.device:
    """Return the first CUDA device, else the CPU."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def backend_of(device: torch.device) -> str:
    """Return `cpu` or `cuda:<name of the device>`."""
    if device.type != "cuda":
        return device.type
    return f"{device.type}:{torch.cuda.get_device_name(device)}"


def pin_threads() -> None:
    """Use no more torch threads than the container has CPUs (two that contend once cost 60x).

    To be called in the thread that will run the model: OpenMP keeps the number per thread.
    """
    quota = cpu_quota()
    threads = torch.get_num_threads()
    if quota is not None:
        threads = min(threads, max(1, math.floor(quota)))
    torch.set_num_threads(threads)


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn every way of running out of memory into `OutOfMemory`."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(describe(error)) from error
    except RuntimeError as error:
        if _CPU_ALLOCATOR in str(error):
            raise OutOfMemory(describe(error)) from error
        raise
