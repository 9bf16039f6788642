"""Calibration: memory bandwidth and GEMM rate of the machine during the run."""

from dataclasses import dataclass
from time import perf_counter as now

import torch

BYTES = 1 << 28
SIDE = 1024
REPEATS = 5


@dataclass(frozen=True)
class Calibration:
    """Rates with the number of threads of the peers."""

    memory_gb_per_second: float
    """Bytes read and written by a copy that exceeds all caches."""
    gemm_gflop_per_second: float
    """Rate of a float32 product of square matrices."""


def calibrate(threads: int) -> Calibration:
    """Return the best of some repeats."""
    torch.set_num_threads(threads)
    source = torch.ones(BYTES // 4)
    target = torch.empty_like(source)
    left, right = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    copy = min(_seconds(lambda: target.copy_(source)) for _ in range(REPEATS))
    gemm = min(_seconds(lambda: left @ right) for _ in range(REPEATS))
    return Calibration(2 * BYTES / copy / 1e9, 2 * SIDE**3 / gemm / 1e9)


def _seconds(work: object) -> float:
    began = now()
    work()  # type: ignore[operator]
    return now() - began
