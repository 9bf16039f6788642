"""Conversion between numpy arrays and torch tensors without copies where possible."""

from types import MappingProxyType

import numpy as np
import torch

from penstock_runtime.request import Tensor

TORCH_DATATYPES = MappingProxyType(
    {
        torch.bool: "BOOL",
        torch.uint8: "UINT8",
        torch.int8: "INT8",
        torch.int16: "INT16",
        torch.int32: "INT32",
        torch.int64: "INT64",
        torch.float16: "FP16",
        torch.float32: "FP32",
        torch.float64: "FP64",
    }
)


def datatype_of_torch(dtype: torch.dtype) -> str:
    """Return the Open Inference datatype of a torch dtype; raise ValueError that names the supported ones."""
    datatype = TORCH_DATATYPES.get(dtype)
    if datatype is None:
        served = ", ".join(str(key).removeprefix("torch.") for key in TORCH_DATATYPES)
        raise ValueError(f"dtype {str(dtype).removeprefix('torch.')} is not served: use {served}")
    return datatype


def to_torch(array: Tensor) -> torch.Tensor:
    """Return a tensor in host memory, which shares the array's memory unless that is read-only.

    Arrays over a received body are read-only, and torch has no read-only tensors.
    """
    flags = array.flags
    usable = array if flags.writeable and flags.c_contiguous else np.array(array, order="C")
    return torch.from_numpy(usable)


def to_numpy(tensor: torch.Tensor) -> Tensor:
    """Return the tensor's values in host memory, shared if the tensor is on the CPU."""
    array: Tensor = tensor.numpy(force=True)
    return array
