"""What the machine itself can do in this minute: the figures that all others stand beside."""

from dataclasses import dataclass

import torch

from tests.bench.generation.clock import now

BYTES = 1 << 28
SIDE = 1024
REPEATS = 5


@dataclass(frozen=True)
class Calibration:
    """Measured with as many threads as the peers have."""

    memory_gb_per_second: float
    """Read and written by a copy that no cache holds."""
    gemm_gflop_per_second: float
    """Of a float32 product of square matrices."""


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
