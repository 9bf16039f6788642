"""The error of an encoder in a narrower data type, which is compared with float32 where the type is requested."""

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import torch

from penstock_api.types.model import Task
from penstock_runtime.cgroup import free_memory_bytes
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelLoadFailed
from penstock_runtime.models.encoders.load import open_encoder, samples
from penstock_runtime.request import Tensor

log = logging.getLogger(__name__)

TOLERANCES: Final[Mapping[DType, float]] = MappingProxyType(
    {DType.FLOAT16: 1e-2, DType.BFLOAT16: 1e-1}
)
"""Tolerated difference from float32 relative to the greatest output; bfloat16 has three bits less."""
GROWTH: Final = 3
"""Memory for the comparison relative to the files: 16-bit files double in float32, and so do the largest tensors while they load."""


def precision_error(folder: Path, task: Task, dtype: DType, model: Model) -> float | None:
    """Return the greatest difference of `model` from the encoder in float32 on a CPU, relative to its greatest output.

    Returns None where the type is not a requested 16-bit one, and where memory for the comparison is short.

    Raises:
        ModelLoadFailed: the difference is above the tolerance of the type, or an output is not finite.
    """
    if dtype not in TOLERANCES:
        return None
    needed = GROWTH * sum(file.stat().st_size for file in folder.rglob("*.safetensors"))
    if needed > free_memory_bytes():
        log.warning("outputs in %s are not compared with float32: %d MiB of memory are not free", dtype, needed >> 20)  # fmt: skip
        return None
    exact = open_encoder(folder, task, DType.FLOAT32, torch.device("cpu"))
    plain = exact.padded()
    errors = [_error(plain.run(sample), model.run(sample)) for sample in samples(exact.limits)]
    error = float(np.max(errors))
    if not error <= TOLERANCES[dtype]:
        raise ModelLoadFailed(
            f"outputs in {dtype} differ from float32 by {error:.1e} of the greatest value, tolerated are"
            f" {TOLERANCES[dtype]:.0e}: set spec.model.dtype to {_wider(dtype)}"
        )
    log.info("outputs in %s differ from float32 by %.1e of the greatest value", dtype, error)
    return error


def _wider(dtype: DType) -> str:
    return "BFloat16 or Float32" if dtype is DType.FLOAT16 else "Float32"


def _error(expected: Mapping[str, Tensor], got: Mapping[str, Tensor]) -> float:
    """Return the greatest difference relative to the greatest expected value; not a number where an output is not finite."""
    differences = [np.abs(np.subtract(values, got[name])).max() for name, values in expected.items()]  # fmt: skip
    scale = max(float(np.abs(values).max()) for values in expected.values())
    return float(np.max(differences)) / (scale or 1.0)
