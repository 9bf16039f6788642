"""Memory bound of a batch: floor(0.8 * free / bytes per row), measured by running growing batches."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch
from typing_extensions import override

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_runtime.cgroup import free_memory_bytes
from penstock_runtime.engine.dynamic.model_io import find_sample
from penstock_runtime.engine.model import Model, OutOfMemory

SHARE_OF_FREE = 0.8
ENOUGH_GROWTH_BYTES = 32 * 2**20
"""Growth that is large compared with the rounding and caching of allocators."""
MEASURING_SECONDS = 1.0

_PROCESS = Path("/proc/self")


class MemoryMeter(Protocol):
    """Memory of the device that a model computes on."""

    def reset(self) -> None:
        """Start a measurement of growth."""

    def peak_growth_bytes(self) -> int:
        """Return the peak use since `reset` minus the use at `reset`."""

    def free_bytes(self) -> int:
        """Return the bytes that can be allocated."""


class CudaMeter(MemoryMeter):
    """Device memory, measured by torch's allocator."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._start = 0

    @override
    def reset(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)
        self._start = torch.cuda.memory_allocated(self._device)

    @override
    def peak_growth_bytes(self) -> int:
        return torch.cuda.max_memory_allocated(self._device) - self._start

    @override
    def free_bytes(self) -> int:
        free, _ = torch.cuda.mem_get_info(self._device)
        kept = torch.cuda.memory_reserved(self._device)
        return free + kept - torch.cuda.memory_allocated(self._device)


class ResidentMeter(MemoryMeter):
    """Resident memory of the process (proc(5): `VmHWM` is its peak, which writing 5 to `clear_refs` resets)."""

    def __init__(self, process: Path = _PROCESS) -> None:
        self._process = process
        self._start = 0

    @override
    def reset(self) -> None:
        try:
            (self._process / "clear_refs").write_text("5")
        except OSError:  # the peak cannot be reset: measure growth from the current peak
            self._start = self._kilobytes("VmHWM:")
        else:
            self._start = self._kilobytes("VmRSS:")

    @override
    def peak_growth_bytes(self) -> int:
        return max(0, self._kilobytes("VmHWM:") - self._start) * 1024

    @override
    def free_bytes(self) -> int:
        return free_memory_bytes()

    def _kilobytes(self, name: str) -> int:
        words = (self._process / "status").read_text().split()
        return int(words[words.index(name) + 1])


def meter_of(device: torch.device) -> MemoryMeter:
    """Return the meter of `device`."""
    return CudaMeter(device) if device.type == "cuda" else ResidentMeter()


def bound_rows(free_bytes: int, bytes_per_row: float, max_rows: int) -> int:
    """Return floor(0.8 * free / per row), at least 1, at most `max_rows` and MAX_BATCH_SIZE."""
    fitting = int(SHARE_OF_FREE * free_bytes / max(1.0, bytes_per_row))
    return max(1, min(fitting, max_rows, MAX_BATCH_SIZE))


def measured_bound_rows(
    run: Callable[[int], None], min_bytes_per_row: int, max_rows: int, meter: MemoryMeter
) -> int:
    """Return the bound of a model whose `run(rows)` computes a batch.

    `min_bytes_per_row` (inputs and outputs) is the lower bound of the measurement, for models whose growth is
    too small to measure.
    """
    run(1)
    free = meter.free_bytes()
    measured = _bytes_per_row(run, min(max_rows, MAX_BATCH_SIZE), meter)
    return bound_rows(free, max(measured, min_bytes_per_row), max_rows)


def memory_bound_of(model: Model, device: torch.device) -> int:
    """Return the bound of a model that computes on `device`, measured on its sample.

    Raises:
        ModelLoadFailed: no sample of one row runs.
    """
    sample = find_sample(model)
    outputs = model.run(sample.inputs(1))
    row_bytes = sample.bytes_per_row() + sum(tensor.nbytes for tensor in outputs.values())

    def run(rows: int) -> None:
        model.run(sample.inputs(rows))

    return measured_bound_rows(run, row_bytes, model.info.max_rows, meter_of(device))


def _bytes_per_row(run: Callable[[int], None], max_rows: int, meter: MemoryMeter) -> float:
    """Run 2, 4, 8 ... rows until the growth is significant, or the time or row limit is reached; return growth per row.

    The caller has run one row, so that permanent allocations do not count.
    """
    meter.reset()
    began, rows, growth = time.monotonic(), 1, 0
    while rows * 2 <= max_rows and growth < ENOUGH_GROWTH_BYTES:
        if time.monotonic() - began > MEASURING_SECONDS:
            break
        try:
            run(rows * 2)
        except (OutOfMemory, MemoryError):
            break
        rows, growth = rows * 2, meter.peak_growth_bytes()
    return growth / rows
