"""Requested narrower data types of one-shot models: the error from float32 that each may have."""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import ModelLoadFailed

log = logging.getLogger(__name__)

TOLERANCES: Final[Mapping[DType, float]] = MappingProxyType(
    {DType.FLOAT16: 1e-2, DType.BFLOAT16: 1e-1, DType.INT8: 1e-1}
)
"""Tolerated difference from float32 relative to the greatest output; bfloat16 has three bits less than float16, and int8 as
many as bfloat16."""
_WIDER: Final[Mapping[DType, str]] = MappingProxyType(
    {
        DType.FLOAT16: "BFloat16 or Float32",
        DType.BFLOAT16: "Float32",
        DType.INT8: "BFloat16 or Float32",
    }
)


def is_narrow(dtype: DType) -> bool:
    """Return whether `dtype` is narrower than float32 and requested, so that outputs are compared."""
    return dtype in TOLERANCES


def check_error(dtype: DType, error: float) -> None:
    """Raise `ModelLoadFailed` if `error` is above the tolerance of a narrow `dtype`, or is not a number."""
    if not error <= TOLERANCES[dtype]:
        raise ModelLoadFailed(
            f"outputs in {dtype} differ from float32 by {error:.1e} of the greatest value, tolerated are"
            f" {TOLERANCES[dtype]:.0e}: set spec.model.dtype to {_WIDER[dtype]}"
        )
    log.info("outputs in %s differ from float32 by %.1e of the greatest value", dtype, error)
