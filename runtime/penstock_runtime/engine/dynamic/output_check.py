"""Whether what a model returned is what it promised: a model's slip must fail requests, never the engine."""

import numpy as np

from penstock_runtime.engine.datatypes import datatype_of
from penstock_runtime.engine.model import TensorSpec
from penstock_runtime.request import Tensor


class BadOutput(Exception):
    """The model broke its own declaration; the message names the output, what it is and what it should be."""


def checked(outputs: object, specs: tuple[TensorSpec, ...], rows: int) -> dict[str, Tensor]:
    """Return the declared outputs of a batch of `rows`, and nothing else.

    Raises:
        BadOutput: one is missing, is no array, or has another dtype, row count or shape than declared.
    """
    if not isinstance(outputs, dict):
        raise BadOutput(f"the model returned {type(outputs).__name__}, expected a dict of arrays")
    return {spec.name: _checked_one(outputs.get(spec.name), spec, rows) for spec in specs}


def _checked_one(value: object, spec: TensorSpec, rows: int) -> Tensor:
    if not isinstance(value, np.ndarray):
        kind = "nothing" if value is None else type(value).__name__
        raise BadOutput(f"output '{spec.name}' is {kind}, expected an array")
    expected = (rows, *spec.shape[1:])
    if not _fits(value.shape, expected):
        raise BadOutput(f"output '{spec.name}' has shape {value.shape}, expected {expected}")
    if datatype_of(value.dtype) != spec.datatype:
        raise BadOutput(f"output '{spec.name}' has dtype {value.dtype}, expected {spec.datatype}")
    return value


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Return whether `shape` is the expected one, where -1 beyond the first axis is any size."""
    return len(shape) == len(expected) and all(
        allowed in (-1, size) for size, allowed in zip(shape, expected, strict=True)
    )
