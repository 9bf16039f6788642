"""Selects torch's device and thread count, and converts its errors."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from penstock_runtime.cgroup import cpu_quota
from penstock_runtime.engine.model import DeviceLost, OutOfMemory, describe

_CPU_ALLOCATOR = "DefaultCPUAllocator"
"""Text in the RuntimeError of torch's CPU allocator, which has no exception type of its own."""

_STICKY_CUDA_ERRORS = (
    "device-side assert triggered",
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "misaligned address",
    "unspecified launch failure",
    "uncorrectable ECC error",
)
"""Errors after which "the process must be terminated and relaunched" (CUDA Runtime API, `cudaError`)."""


def choose_device() -> torch.device:
    """Return the first CUDA device, else the CPU."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def backend_of(device: torch.device) -> str:
    """Return `cpu` or `cuda:<name of the device>`."""
    if device.type != "cuda":
        return device.type
    return f"{device.type}:{torch.cuda.get_device_name(device)}"


def pin_threads(threads: int | None = None) -> None:
    """Use `threads` torch threads, or at most the CPU limit of the container: oversubscription slows torch down 60x.

    Must be called in the thread that runs the model: OpenMP keeps the number per thread.
    """
    quota = cpu_quota()
    allowed = threads if threads is not None else math.floor(quota) if quota is not None else None
    default = torch.get_num_threads()
    torch.set_num_threads(default if allowed is None else max(1, min(default, allowed)))


@contextmanager
def device_errors() -> Iterator[None]:
    """Convert every out-of-memory error to `OutOfMemory`, and a broken CUDA context to `DeviceLost`."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        raise_as_device_error(error)
        raise


def raise_as_device_error(error: Exception) -> None:
    """Raise the conversion of `error`, if any; saves the 30 us of the `device_errors` context."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or _CPU_ALLOCATOR in str(error):
        raise OutOfMemory(describe(error)) from error
    if any(text in str(error) for text in _STICKY_CUDA_ERRORS):
        raise DeviceLost(describe(error)) from error
