"""Where torch computes, with how many threads, and how its errors read."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from penstock_runtime.cgroup import cpu_quota
from penstock_runtime.engine.model import DeviceLost, OutOfMemory, describe

_CPU_ALLOCATOR = "DefaultCPUAllocator"
"""How torch's allocator for CPUs signs its RuntimeError: it has no type of its own."""

_STICKY_CUDA_ERRORS = (
    "device-side assert triggered",
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "misaligned address",
    "unspecified launch failure",
    "uncorrectable ECC error",
)
"""CUDA Runtime API, `cudaError`: after these "the process must be terminated and relaunched"."""


def choose_device() -> torch.device:
    """Return the first CUDA device, else the CPU."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def backend_of(device: torch.device) -> str:
    """Return `cpu` or `cuda:<name of the device>`."""
    if device.type != "cuda":
        return device.type
    return f"{device.type}:{torch.cuda.get_device_name(device)}"


def pin_threads(threads: int | None = None) -> None:
    """Use `threads` torch threads, or no more than the container has CPUs (two that contend once cost 60x).

    To be called in the thread that will run the model: OpenMP keeps the number per thread.
    """
    quota = cpu_quota()
    allowed = threads if threads is not None else math.floor(quota) if quota is not None else None
    most = torch.get_num_threads()
    torch.set_num_threads(most if allowed is None else max(1, min(most, allowed)))


@contextmanager
def device_errors() -> Iterator[None]:
    """Turn every way of running out of memory into `OutOfMemory`, and a broken context into `DeviceLost`."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        raise_as_device_error(error)
        raise


def raise_as_device_error(error: Exception) -> None:
    """Raise what `device_errors` makes of `error`, if anything: where a context's own 30 us would show."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or _CPU_ALLOCATOR in str(error):
        raise OutOfMemory(describe(error)) from error
    if any(words in str(error) for words in _STICKY_CUDA_ERRORS):
        raise DeviceLost(describe(error)) from error
