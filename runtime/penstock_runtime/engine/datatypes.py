"""Open Inference datatypes and their numpy dtypes (Open Inference Protocol, "Tensor Data Types").

BYTES has no fixed size and BF16 no numpy dtype: neither is supported.
"""

from types import MappingProxyType

import numpy as np

NUMPY_DTYPES = MappingProxyType(
    {
        "BOOL": np.dtype(np.bool_),
        "UINT8": np.dtype(np.uint8),
        "INT8": np.dtype(np.int8),
        "INT16": np.dtype(np.int16),
        "INT32": np.dtype(np.int32),
        "INT64": np.dtype(np.int64),
        "FP16": np.dtype(np.float16),
        "FP32": np.dtype(np.float32),
        "FP64": np.dtype(np.float64),
    }
)
_DATATYPES = MappingProxyType({dtype: name for name, dtype in NUMPY_DTYPES.items()})


def numpy_dtype(datatype: str) -> np.dtype[np.generic]:
    """Return the numpy dtype of an Open Inference datatype; raise ValueError that names the supported ones."""
    dtype = NUMPY_DTYPES.get(datatype)
    if dtype is None:
        raise ValueError(
            f"datatype '{datatype}' is not served: use one of {', '.join(NUMPY_DTYPES)}"
        )
    return dtype


def datatype_of(dtype: np.dtype[np.generic]) -> str | None:
    """Return the Open Inference datatype of a numpy dtype in native byte order, or None."""
    return _DATATYPES.get(dtype)
