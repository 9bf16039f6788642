"""How many rows fit: floor(0.8 * free / bytes per row), the latter measured by running growing batches."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch

from penstock_api.limits import MAX_BATCH_SIZE
from penstock_runtime.cgroup import free_memory_bytes
from penstock_runtime.engine.model import OutOfMemory

SHARE_OF_FREE = 0.8
ENOUGH_GROWTH_BYTES = 32 * 2**20
"""A growth this large stands clear of what allocators round up, cache and hand back."""
MEASURING_SECONDS = 1.0

_PROCESS = Path("/proc/self")


class MemoryMeter(Protocol):
    """The memory that a model computes in."""

    def reset(self) -> None:
        """Count growth from now."""

    def peak_growth_bytes(self) -> int:
        """Return the highest use since `reset`, less the use at `reset`."""

    def free_bytes(self) -> int:
        """Return what can still be allocated."""


class CudaMeter:
    """Device memory, by torch's own allocator."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._start = 0

    def reset(self) -> None:
        """As `MemoryMeter`."""
        torch.cuda.reset_peak_memory_stats(self._device)
        self._start = torch.cuda.memory_allocated(self._device)

    def peak_growth_bytes(self) -> int:
        """As `MemoryMeter`."""
        return torch.cuda.max_memory_allocated(self._device) - self._start

    def free_bytes(self) -> int:
        """As `MemoryMeter`: what the driver has left, and what the allocator keeps without using it."""
        free, _ = torch.cuda.mem_get_info(self._device)
        kept = torch.cuda.memory_reserved(self._device)
        return free + kept - torch.cuda.memory_allocated(self._device)


class ResidentMeter:
    """The process's resident memory (proc(5): `VmHWM` is its peak, `clear_refs` 5 resets that)."""

    def __init__(self, process: Path = _PROCESS) -> None:
        self._process = process
        self._start = 0

    def reset(self) -> None:
        """As `MemoryMeter`; where the peak cannot be reset, growth counts from the highest use so far."""
        try:
            (self._process / "clear_refs").write_text("5")
        except OSError:
            self._start = self._kilobytes("VmHWM:")
        else:
            self._start = self._kilobytes("VmRSS:")

    def peak_growth_bytes(self) -> int:
        """As `MemoryMeter`."""
        return max(0, self._kilobytes("VmHWM:") - self._start) * 1024

    def free_bytes(self) -> int:
        """As `MemoryMeter`: the control group's rest, or the machine's where that is less."""
        return free_memory_bytes()

    def _kilobytes(self, name: str) -> int:
        words = (self._process / "status").read_text().split()
        return int(words[words.index(name) + 1])


def meter_of(device: torch.device) -> MemoryMeter:
    """Return what measures memory on `device`."""
    return CudaMeter(device) if device.type == "cuda" else ResidentMeter()


def bound_rows(free_bytes: int, bytes_per_row: float, max_rows: int) -> int:
    """Return floor(0.8 * free / per row), at least 1, at most `max_rows` and MAX_BATCH_SIZE."""
    fitting = int(SHARE_OF_FREE * free_bytes / max(1.0, bytes_per_row))
    return max(1, min(fitting, max_rows, MAX_BATCH_SIZE))


def measured_bound_rows(
    run: Callable[[int], None], least_bytes_per_row: int, max_rows: int, meter: MemoryMeter
) -> int:
    """Return the bound of a model whose `run(rows)` computes a batch.

    `least_bytes_per_row` (inputs and outputs) is the measurement's floor: a model too small to show in
    the process's size still needs that much.
    """
    run(1)
    free = meter.free_bytes()
    measured = _bytes_per_row(run, min(max_rows, MAX_BATCH_SIZE), meter)
    return bound_rows(free, max(measured, least_bytes_per_row), max_rows)


def _bytes_per_row(run: Callable[[int], None], max_rows: int, meter: MemoryMeter) -> float:
    """Run 2, 4, 8 ... rows until the growth is clear, or time or rows are up; return growth per row.

    One row has run before: what is allocated once and kept does not count.
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
