"""The error of an encoder in a narrower data type, which is compared with float32 where the type is requested."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import torch

from penstock_api.types.model import Task
from penstock_runtime.cgroup import free_memory_bytes
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelLoadFailed, describe
from penstock_runtime.models.encoders.load import open_encoder, samples
from penstock_runtime.models.precision import check_error, is_narrow
from penstock_runtime.request import Tensor

log = logging.getLogger(__name__)

GROWTH: Final = 3
"""Memory for the comparison relative to the files: 16-bit files double in float32, and so do the largest tensors while they load."""


def precision_error(folder: Path, task: Task, dtype: DType, model: Model) -> float | None:
    """Return the greatest difference of `model` from the encoder in float32 on a CPU, relative to its greatest output.

    Returns None where the type is not a requested narrower one, and where memory for the comparison is short.

    Raises:
        ModelLoadFailed: the difference is above the tolerance of the type, an output is not finite, or the model does not compute in it.
    """
    if not is_narrow(dtype):
        return None
    needed = GROWTH * sum(file.stat().st_size for file in folder.rglob("*.safetensors"))
    if needed > free_memory_bytes():
        log.warning("outputs in %s are not compared with float32: %d MiB of memory are not free", dtype, needed >> 20)  # fmt: skip
        return None
    exact = open_encoder(folder, task, DType.FLOAT32, torch.device("cpu"))
    plain = exact.padded()
    drawn = samples(exact.limits)
    expected = [plain.run(sample) for sample in drawn]
    try:
        got = [model.run(sample) for sample in drawn]
    except Exception as cause:  # a layer may read the weights of another, which int8 packs
        raise ModelLoadFailed(
            f"the model does not compute in {dtype} ({describe(cause)}): remove spec.model.dtype"
        ) from cause
    error = float(np.max([_error(*pair) for pair in zip(expected, got, strict=True)]))
    check_error(dtype, error)
    return error


def _error(expected: Mapping[str, Tensor], got: Mapping[str, Tensor]) -> float:
    """Return the greatest difference relative to the greatest expected value; not a number where an output is not finite."""
    differences = [np.abs(np.subtract(values, got[name])).max() for name, values in expected.items()]  # fmt: skip
    scale = max(float(np.abs(values).max()) for values in expected.values())
    return float(np.max(differences)) / (scale or 1.0)
