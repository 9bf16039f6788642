"""`median_seconds`: the duration of a call on a device, by the device's own events."""

import time
from collections.abc import Callable
from statistics import median

import torch


def median_seconds(call: Callable[[], object], device: torch.device, repeats: int = 20) -> float:
    """Return the median duration of `call` in seconds, after two calls that load kernels and allocate."""
    for _ in range(2):
        call()
    wait(device)
    return median(_seconds(call, device) for _ in range(repeats))


def wait(device: torch.device) -> None:
    """Wait until the device has done what was queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    if device.type != "cuda":
        began = time.perf_counter()
        call()
        return time.perf_counter() - began
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000
